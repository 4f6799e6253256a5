/* The service under test: tells when its main began, then waits, or writes numbered lines first.
 *
 *   svc idle SOCKET
 *   svc spam SOCKET BYTES LINE     LINE: length of a line with its newline; whole lines, at least BYTES in all
 *
 * Reports go to a unix datagram socket: pid, kind (0 begun, 1 all written), two CLOCK_MONOTONIC times in nanoseconds. A
 * spammer writes when it gets a shared lock on SOCKET.gate, so that all of them begin at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { DIGITS = 12, BUFFER = 64 * 1024 };

struct report {
    uint64_t pid, kind, begin, end;
};

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(111);
}

static void tell(const char *socket_path, uint64_t kind, uint64_t begin, uint64_t end) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct report report = {(uint64_t)getpid(), kind, begin, end};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || strlen(socket_path) >= sizeof address.sun_path) fail("svc: socket");
    strcpy(address.sun_path, socket_path);
    while (sendto(fd, &report, sizeof report, 0, (struct sockaddr *)&address, sizeof address) < 0) {
        if (errno != EINTR && errno != ENOBUFS) fail("svc: sendto");
    }
    close(fd);
}

static void wait_for_gate(const char *socket_path) {
    char path[256];
    snprintf(path, sizeof path, "%s.gate", socket_path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail("svc: gate");
    while (flock(fd, LOCK_SH) < 0) {
        if (errno != EINTR) fail("svc: gate");
    }
    close(fd);
}

/* Some supervisors hand over a descriptor that does not block. */
static void write_all(const char *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(1, data, size);
        if (written >= 0) {
            data += written;
            size -= (size_t)written;
        } else if (errno == EAGAIN) {
            struct pollfd ready = {.fd = 1, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            fail("svc: write");
        }
    }
}

static void number_line(char *line, uint64_t number) {
    for (int at = DIGITS; at >= 1; at--, number /= 10) line[at] = (char)('0' + number % 10);
}

static void spam(const char *socket_path, uint64_t bytes, size_t line) {
    static char buffer[BUFFER];
    if (line < DIGITS + 3 || line > BUFFER) fail("svc: LINE");
    size_t lines = BUFFER / line;
    memset(buffer, 'x', sizeof buffer);
    for (size_t at = 0; at < lines; at++) {
        buffer[at * line] = '#';
        buffer[at * line + DIGITS + 1] = ' ';
        buffer[at * line + line - 1] = '\n';
    }
    uint64_t count = (bytes + line - 1) / line;
    uint64_t begin = now();
    for (uint64_t number = 0; number < count;) {
        size_t filled = count - number < lines ? (size_t)(count - number) : lines;
        for (size_t at = 0; at < filled; at++) number_line(buffer + at * line, number + at);
        write_all(buffer, filled * line);
        number += filled;
    }
    tell(socket_path, 1, begin, now());
}

int main(int argc, char **argv) {
    uint64_t begin = now();
    int spams = argc == 5 && strcmp(argv[1], "spam") == 0;
    if (!spams && !(argc == 3 && strcmp(argv[1], "idle") == 0)) {
        fputs("usage: svc idle SOCKET | svc spam SOCKET BYTES LINE\n", stderr);
        return 2;
    }
    tell(argv[2], 0, begin, begin);
    if (spams) {
        wait_for_gate(argv[2]);
        spam(argv[2], strtoull(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
    }
    for (;;) pause();
}
