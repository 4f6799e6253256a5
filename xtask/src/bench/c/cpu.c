/* CPU time of processes in nanoseconds, all their threads together, those that have ended too; the sum on stdout.
 *
 *   cpu PID…
 *
 * The counters in /proc either have ticks of 10 ms, which is more than a good supervisor uses in a minute, or miss threads
 * that have ended. A process that is gone counts as nothing.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    uint64_t sum = 0;
    for (int at = 1; at < argc; at++) {
        clockid_t clock;
        struct timespec time;
        if (clock_getcpuclockid((pid_t)strtol(argv[at], NULL, 10), &clock) != 0) continue;
        if (clock_gettime(clock, &time) != 0) continue;
        sum += (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
