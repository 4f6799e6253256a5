/* How long whole commands take: from before posix_spawn to after waitpid, in nanoseconds, one line for each.
 *
 *   timer COUNT SECONDS COMMAND…      COUNT times, or as often as SECONDS allow; output of the command is dropped
 *
 * In C, because what spawns should cost little and always the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fputs("usage: timer COUNT SECONDS COMMAND...\n", stderr);
        return 2;
    }
    long count = strtol(argv[1], NULL, 10);
    uint64_t last = now() + strtoull(argv[2], NULL, 10) * 1000000000u;
    char **command = argv + 3;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    for (long at = 0; at < count && (at == 0 || now() < last); at++) {
        pid_t pid;
        int status;
        uint64_t begin = now();
        errno = posix_spawn(&pid, command[0], &actions, NULL, command, environ);
        if (errno != 0 || waitpid(pid, &status, 0) != pid) {
            perror(command[0]);
            return 111;
        }
        uint64_t end = now();
        if (status != 0) {
            fprintf(stderr, "%s ended with status %#x\n", command[0], (unsigned)status);
            return 111;
        }
        printf("%llu\n", (unsigned long long)(end - begin));
    }
    return 0;
}
