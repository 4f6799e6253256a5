/* Reads what a supervisor stored of `svc spam` and counts what is wrong with it.
 *
 *   verify LINE COUNT FILE…      files in the order in which they were written; `lines lost doubled torn` on stdout
 *
 * A line may have something before its `#` (a time, a name), nothing after its last byte. In C, because it reads all
 * that was written in a benchmark.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 12, BUFFER = 1024 * 1024 };

static size_t length;
static uint64_t lines, next, lost, doubled, torn;

static void line_ends(const char *line, size_t size) {
    const char *mark = memchr(line, '#', size);
    size_t body = mark == NULL ? 0 : size - (size_t)(mark - line);
    uint64_t number = 0;
    int whole = body == length - 1 && mark[DIGITS + 1] == ' ' && mark[body - 1] == 'x';
    for (size_t at = 1; whole && at <= DIGITS; at++) {
        whole = mark[at] >= '0' && mark[at] <= '9';
        number = number * 10 + (uint64_t)(mark[at] - '0');
    }
    lines++;
    if (!whole) {
        torn++;
    } else if (number < next) {
        doubled++;
    } else {
        lost += number - next;
        next = number + 1;
    }
}

/* What is left of the last line stays at the beginning of the buffer. */
static size_t lines_of(char *buffer, size_t filled) {
    char *at = buffer, *end = buffer + filled, *newline;
    while ((newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        line_ends(at, (size_t)(newline - at));
        at = newline + 1;
    }
    memmove(buffer, at, (size_t)(end - at));
    return (size_t)(end - at);
}

int main(int argc, char **argv) {
    static char buffer[BUFFER];
    if (argc < 3) {
        fputs("usage: verify LINE COUNT FILE...\n", stderr);
        return 2;
    }
    length = strtoul(argv[1], NULL, 10);
    uint64_t count = strtoull(argv[2], NULL, 10);
    size_t kept = 0;
    for (int file = 3; file < argc; file++) {
        FILE *stream = fopen(argv[file], "rb");
        size_t got;
        if (stream == NULL) {
            perror(argv[file]);
            return 111;
        }
        while ((got = fread(buffer + kept, 1, BUFFER - kept, stream)) > 0) {
            kept = lines_of(buffer, kept + got);
            if (kept == BUFFER) torn++, kept = 0;
        }
        fclose(stream);
    }
    if (kept > 0) torn++;
    if (next < count) lost += count - next;
    printf("%llu %llu %llu %llu\n", (unsigned long long)lines, (unsigned long long)lost,
           (unsigned long long)doubled, (unsigned long long)torn);
    return 0;
}
