/* A statically linked program, as a server and as a client. No library is loaded into it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static void show(const char *what, int (*call)(int, struct sockaddr *, socklen_t *), int fd) {
    struct sockaddr_in6 at;
    socklen_t len = sizeof at;
    char text[INET6_ADDRSTRLEN];
    if (call(fd, (struct sockaddr *)&at, &len) != 0)
        die(what);
    const struct sockaddr_in *v4 = (struct sockaddr_in *)&at;
    inet_ntop(at.sin6_family, at.sin6_family == AF_INET ? (void *)&v4->sin_addr : (void *)&at.sin6_addr, text,
              sizeof text);
    printf("%s %s %d %d\n", what, text, ntohs(at.sin6_port), (int)len);
}

static struct sockaddr_in6 place(const char *ip, const char *port, socklen_t *len) {
    struct sockaddr_in6 at = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&at;
    if (inet_pton(AF_INET, ip, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        *len = sizeof *v4;
    } else {
        inet_pton(AF_INET6, ip, &at.sin6_addr);
        at.sin6_family = AF_INET6;
        *len = sizeof at;
    }
    at.sin6_port = htons(atoi(port));
    return at;
}

static void option(int fd, int level, int number, int value) {
    socklen_t len = sizeof value;
    int now = -1;
    if (setsockopt(fd, level, number, &value, len) != 0 || getsockopt(fd, level, number, &now, &len) != 0)
        die("option");
    printf("option %d %d %d %d\n", level, number, now, (int)len);
}

static void on_term(int signal) { (void)signal; }

static void echo(int fd) {
    char bytes[4096];
    ssize_t count;
    while ((count = read(fd, bytes, sizeof bytes)) > 0)
        if (write(fd, bytes, count) != count)
            die("write");
    close(fd);
}

/* Accepts with calls that block, in two processes; signals end it. */
static int serve_blocking(int listener) {
    struct sigaction act = {.sa_handler = on_term};
    sigaction(SIGTERM, &act, NULL);
    act.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &act, NULL);
    signal(SIGCHLD, SIG_IGN);
    puts("listens");
    for (;;) {
        struct sockaddr_in6 from;
        socklen_t len = sizeof from;
        int fd = accept(listener, (struct sockaddr *)&from, &len);
        if (fd < 0 && errno == EINTR) {
            puts("interrupted");
            return 3;
        }
        if (fd < 0)
            die("accept");
        show("remote", getpeername, fd);
        if (fork() == 0) {
            close(listener);
            echo(fd);
            _exit(0);
        }
        close(fd);
    }
}

/* Accepts when epoll says so. */
static int serve_epoll(int listener) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = listener};
    fcntl(listener, F_SETFL, O_NONBLOCK);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    puts("listens");
    for (;;) {
        if (epoll_wait(epoll, &event, 1, -1) != 1)
            die("epoll_wait");
        int of = event.data.fd;
        if (of == listener) {
            int fd;
            while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
                event.events = EPOLLIN;
                event.data.fd = fd;
                epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
            }
            if (errno != EAGAIN)
                die("accept4");
            continue;
        }
        char bytes[4096];
        ssize_t count = read(of, bytes, sizeof bytes);
        if (count <= 0)
            close(of);
        else if (write(of, bytes, count) != count)
            die("write");
    }
    return 1;
}

static int serve(const char *ip, const char *port, int (*how)(int)) {
    socklen_t len;
    struct sockaddr_in6 at = place(ip, port, &len);
    int fd = socket(at.sin6_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, len) != 0)
        die("bind");
    if (listen(fd, 16) != 0)
        die("listen");
    if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC))
        die("FD_CLOEXEC");
    return how(fd);
}

/* Connects, with or without waiting, and sends what comes back. */
static int speak(const char *ip, const char *port, int blocks) {
    socklen_t len;
    struct sockaddr_in6 at = place(ip, port, &len);
    int fd = socket(at.sin6_family, SOCK_STREAM | (blocks ? 0 : SOCK_NONBLOCK), 0), failed = 0;
    if (connect(fd, (struct sockaddr *)&at, len) != 0) {
        if (blocks || errno != EINPROGRESS)
            die("connect");
        struct pollfd polled = {.fd = fd, .events = POLLOUT};
        poll(&polled, 1, -1);
        socklen_t size = sizeof failed;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0)
            die("SO_ERROR");
        if ((errno = failed) != 0)
            die("connect");
        fcntl(fd, F_SETFL, 0);
    }
    show("remote", getpeername, fd);
    show("local", getsockname, fd);
    option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 7);
    option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    char bytes[6] = {0};
    if (write(fd, "hello", 5) != 5 || shutdown(fd, SHUT_WR) != 0 || recv(fd, bytes, 5, MSG_WAITALL) != 5)
        die("echo");
    printf("echo %s\n", bytes);
    return read(fd, bytes, 1) == 0 ? 0 : 1;
}

static int bound_datagrams(const char *ip, const char *port) {
    socklen_t len;
    struct sockaddr_in6 at = place(ip, port, &len);
    int fd = socket(at.sin6_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
    if (at.sin6_family == AF_INET)
        setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    else
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, len) != 0)
        die("bind");
    return fd;
}

/* Echoes datagrams with calls that block; signals interrupt them. */
static int echo_datagrams(const char *ip, const char *port) {
    int fd = bound_datagrams(ip, port);
    struct sigaction act = {.sa_handler = on_term};
    sigaction(SIGTERM, &act, NULL);
    for (;;) {
        char bytes[2048];
        struct sockaddr_in6 from;
        socklen_t len = sizeof from;
        ssize_t count = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &len);
        if (count < 0 && errno == EINTR)
            return 3;
        if (count < 0 || sendto(fd, bytes, count, 0, (struct sockaddr *)&from, len) != count)
            die("echo");
    }
}

/* Echoes datagrams in two buffers when epoll says so, from the address that each was sent to. */
static int echo_messages(const char *ip, const char *port) {
    int fd = bound_datagrams(ip, port), epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    fcntl(fd, F_SETFL, O_NONBLOCK);
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    for (;;) {
        if (epoll_wait(epoll, &event, 1, -1) != 1)
            die("epoll_wait");
        for (;;) {
            char bytes[2048], control[256];
            struct sockaddr_in6 from;
            struct iovec parts[2] = {{bytes, 3}, {bytes + 3, sizeof bytes - 3}};
            struct msghdr message = {&from, sizeof from, parts, 2, control, sizeof control, 0};
            ssize_t count = recvmsg(fd, &message, 0);
            if (count < 0 && errno == EAGAIN)
                break;
            if (count < 3 || CMSG_FIRSTHDR(&message) == NULL)
                die("recvmsg");
            parts[1].iov_len = count - 3;
            if (sendmsg(fd, &message, 0) != count)
                die("sendmsg");
        }
    }
    return 1;
}

/* Asks with a socket that is not bound. Calls without an address find the datagram alone. */
static int ask_datagrams(const char *ip, const char *port) {
    socklen_t len;
    struct sockaddr_in6 at = place(ip, port, &len), from;
    struct timeval within = {2, 0};
    int fd = socket(at.sin6_family, SOCK_DGRAM, 0);
    char bytes[64];
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &within, sizeof within);
    for (int round = 0; round < 4; round++) {
        if (sendto(fd, "hello", 5, 0, (struct sockaddr *)&at, len) != 5)
            die("sendto");
        socklen_t size = sizeof from;
        if (round == 0 && recvfrom(fd, bytes, 2, MSG_PEEK | MSG_TRUNC, (struct sockaddr *)&from, &size) != 5)
            die("MSG_PEEK");
        memset(bytes, 0, sizeof bytes);
        ssize_t count = round == 1   ? recv(fd, bytes, sizeof bytes, 0)
                        : round == 2 ? read(fd, bytes, sizeof bytes)
                                     : recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &size);
        if (count != 5 || memcmp(bytes, "hello", 6) != 0)
            die("receive");
        int tells = round == 0 || round == 3;
        if (tells && (size != len || memcmp(&from, &at, at.sin6_family == AF_INET ? 8 : 24) != 0))
            die("sender");
    }
    struct timeval shortly = {0, 50000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &shortly, sizeof shortly);
    socklen_t size = sizeof from;
    if (recvfrom(fd, bytes, 5, 0, (struct sockaddr *)&from, &size) != -1 || errno != EAGAIN)
        die("SO_RCVTIMEO");
    show("local", getsockname, fd);
    return 0;
}

int main(int count, char **words) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count != 4)
        return 2;
    if (strcmp(words[1], "serve-blocking") == 0)
        return serve(words[2], words[3], serve_blocking);
    if (strcmp(words[1], "serve-epoll") == 0)
        return serve(words[2], words[3], serve_epoll);
    if (strcmp(words[1], "echo-datagrams") == 0)
        return echo_datagrams(words[2], words[3]);
    if (strcmp(words[1], "echo-messages") == 0)
        return echo_messages(words[2], words[3]);
    if (strcmp(words[1], "ask-datagrams") == 0)
        return ask_datagrams(words[2], words[3]);
    return speak(words[2], words[3], strcmp(words[1], "speak-blocking") == 0);
}
