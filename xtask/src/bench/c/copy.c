/* The least that capturing output can cost: pipes copied into files that are changed at a size.
 *
 *   copy read|splice LIMIT FOLDER N COMMAND…     files FOLDER/<number>/<8 digits>.log, until SIGTERM
 *
 * One thread, one epoll. The pipes are as large as an ordinary user may make them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { PIPE_SIZE = 1024 * 1024, READ_SIZE = 256 * 1024, EVENTS = 64 };

struct stream {
    int pipe, file;
    unsigned number, segment;
    size_t stored;
    pid_t pid;
};

extern char **environ;

static size_t limit;
static const char *folder;
static int splices;

static void fail(const char *what) {
    perror(what);
    exit(111);
}

static void next_file(struct stream *stream) {
    char path[4096];
    if (stream->file >= 0) close(stream->file);
    snprintf(path, sizeof path, "%s/%u/%08u.log", folder, stream->number, ++stream->segment);
    stream->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (stream->file < 0) fail(path);
    stream->stored = 0;
}

static ssize_t copy_once(struct stream *stream, size_t room) {
    static char buffer[READ_SIZE];
    if (splices) return splice(stream->pipe, NULL, stream->file, NULL, room, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    ssize_t got = read(stream->pipe, buffer, room < sizeof buffer ? room : sizeof buffer);
    for (ssize_t done = 0; done < got;) {
        ssize_t written = write(stream->file, buffer + done, (size_t)(got - done));
        if (written < 0) fail("copy: write");
        done += written;
    }
    return got;
}

/* Once for each event, so that a busy pipe does not keep the others waiting. 0: the pipe has ended. */
static int copy(struct stream *stream) {
    if (stream->stored >= limit) next_file(stream);
    size_t room = limit - stream->stored;
    ssize_t got = copy_once(stream, room < PIPE_SIZE ? room : PIPE_SIZE);
    if (got < 0 && errno != EAGAIN && errno != EINTR) fail("copy");
    if (got > 0) stream->stored += (size_t)got;
    return got != 0;
}

static void start(struct stream *stream, int epoll, char **command) {
    int ends[2];
    sigset_t none;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) < 0) fail("copy: pipe2");
    fcntl(ends[0], F_SETPIPE_SZ, PIPE_SIZE);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    stream->pipe = ends[0];
    stream->file = -1;
    next_file(stream);
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    errno = posix_spawn(&stream->pid, command[0], &actions, &attributes, command, environ);
    if (errno != 0) fail("copy: posix_spawn");
    close(ends[1]);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = stream};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, stream->pipe, &event) < 0) fail("copy: epoll_ctl");
}

static int watch_term(int epoll) {
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    int fd = signalfd(-1, &term, SFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) fail("copy: signalfd");
    return fd;
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fputs("usage: copy read|splice LIMIT FOLDER N COMMAND...\n", stderr);
        return 2;
    }
    splices = strcmp(argv[1], "splice") == 0;
    limit = strtoull(argv[2], NULL, 10);
    folder = argv[3];
    unsigned count = (unsigned)strtoul(argv[4], NULL, 10);
    struct stream *streams = calloc(count + 1, sizeof *streams);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    watch_term(epoll);
    for (unsigned at = 0; at < count; at++) {
        streams[at].number = at;
        start(&streams[at], epoll, argv + 5);
    }
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int at = 0; at < ready; at++) {
            struct stream *stream = events[at].data.ptr;
            if (stream == NULL) {
                for (unsigned each = 0; each < count; each++) kill(streams[each].pid, SIGTERM);
                return 0;
            }
            if (!copy(stream)) epoll_ctl(epoll, EPOLL_CTL_DEL, stream->pipe, NULL);
        }
    }
}
