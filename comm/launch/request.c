/* See request.h. */
#include "comm/launch/request.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* An abstract name: it goes with the socket. */
static pst_status address_of(const char *folder, struct sockaddr_un *a, socklen_t *bytes) {
    struct stat st;
    if (stat(folder, &st))
        return pst_fail(PST_EINPUT, "cannot find the folder %.200s: %s", folder, strerror(errno));
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "penstock-run-%llx-%llx",
                           (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    return PST_OK;
}

static int is_same_user(int fd) {
    struct ucred other;
    socklen_t bytes = sizeof other;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) && other.uid == geteuid();
}

pst_status pst_request_listen(const char *folder, int *out) {
    struct sockaddr_un a;
    socklen_t bytes;
    PST_TRY(address_of(folder, &a, &bytes));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&a, bytes) || listen(fd, 4))) {
        close(fd);
        fd = -1;
    }
    if (fd < 0) return pst_fail(PST_ENOMEM, "cannot listen for requests to change the run: %m");
    *out = fd;
    return PST_OK;
}

int pst_request_accept(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || is_same_user(fd)) return fd;
    close(fd);
    return -1;
}

pst_status pst_request_open(const char *folder, int *out) {
    struct sockaddr_un a;
    socklen_t bytes;
    *out = -1;
    PST_TRY(address_of(folder, &a, &bytes));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return pst_fail(PST_ENOMEM, "cannot open a socket: %m");
    if (connect(fd, (struct sockaddr *)&a, bytes) || !is_same_user(fd)) close(fd);
    else *out = fd;
    return PST_OK;
}

pst_status pst_request_ask(int fd, const char *line, char *answer, size_t bytes) {
    const size_t n = strlen(line);
    size_t used = 0;
    ssize_t got = send(fd, line, n, MSG_NOSIGNAL) == (ssize_t)n;
    while (got > 0 && used + 1 < bytes) {
        got = read(fd, answer + used, 1);
        if (got < 0 && errno == EINTR) got = 1;
        else if (got > 0 && answer[used] == '\n') break;
        else used += got > 0;
    }
    answer[used] = 0;
    return got > 0 ? PST_OK
                   : pst_fail(PST_EPEER, "the run has ended meanwhile, without the change");
}
