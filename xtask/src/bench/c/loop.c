/* The least a supervisor can do: a posix_spawn loop, a wait-and-spawn-again loop, a signal-and-reap loop.
 *
 *   loop N COMMAND…       until SIGTERM; then SIGTERM to all, and the end when all are reaped
 *
 * No logs, no records, no sessions: what the kernel charges and nothing else.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

static posix_spawnattr_t attributes;

static void fail(const char *what) {
    perror(what);
    exit(111);
}

static pid_t start(char **command) {
    pid_t pid;
    errno = posix_spawn(&pid, command[0], NULL, &attributes, command, environ);
    if (errno != 0) fail("loop: posix_spawn");
    return pid;
}

static void start_again(pid_t *pids, long count, char **command) {
    pid_t ended;
    while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) {
        for (long at = 0; at < count; at++) {
            if (pids[at] == ended) pids[at] = start(command);
        }
    }
}

static void stop_all(pid_t *pids, long count) {
    for (long at = 0; at < count; at++) kill(pids[at], SIGTERM);
    for (long at = 0; at < count; at++) waitpid(pids[at], NULL, 0);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fputs("usage: loop N COMMAND...\n", stderr);
        return 2;
    }
    long count = strtol(argv[1], NULL, 10);
    char **command = argv + 2;
    pid_t *pids = calloc((size_t)count + 1, sizeof *pids);
    sigset_t none, waited;
    sigemptyset(&none);
    sigemptyset(&waited);
    sigaddset(&waited, SIGCHLD);
    sigaddset(&waited, SIGTERM);
    sigprocmask(SIG_BLOCK, &waited, NULL);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    for (long at = 0; at < count; at++) pids[at] = start(command);
    for (;;) {
        int signal = sigwaitinfo(&waited, NULL);
        if (signal == SIGTERM) {
            stop_all(pids, count);
            return 0;
        }
        if (signal == SIGCHLD) start_again(pids, count, command);
    }
}
