/* A dev server as people have them: says what it is, is ready after a second, and answers everything with nothing.
 *
 *   serve PORT
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(111);
}

static void answer(int client) {
    static const char nothing[] = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    char request[4096];
    if (read(client, request, sizeof request) > 0 &&
        write(client, nothing, sizeof nothing - 1) < 0) perror("serve: write");
    shutdown(client, SHUT_WR);
    while (read(client, request, sizeof request) > 0) continue;
    close(client);
}

int main(int count, char **words) {
    if (count != 2) return 2;
    int port = atoi(words[1]), on = 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("\n> shop@1.4.0 dev\n> vite --port %d --strictPort\n\n", port);
    printf("Re-optimizing dependencies because vite config has changed\n");
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("serve: bind");
    if (listen(fd, 16) < 0) fail("serve: listen");
    printf("\n  VITE v7.1.2  ready in 1006 ms\n\n");
    printf("  ->  Local:   http://127.0.0.1:%d/\n  ->  Network: use --host to expose\n", port);
    for (;;) {
        int client = accept(fd, NULL, NULL);
        if (client >= 0) answer(client);
    }
}
