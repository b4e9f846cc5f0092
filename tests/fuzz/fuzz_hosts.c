/* Any bytes as a host file: an error that names the file, or hosts with names and slots. */
#include "comm/launch/hostfile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    pst_hosts h = {0};
    uint32_t slots = 0;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    expect(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (pst_hosts_read(path, &h) != PST_OK) {
        expect(h.host == NULL && strncmp(pst_error(), path, strlen(path)) == 0);
        close(fd);
        return 0;
    }
    expect(h.n >= 1);
    for (uint32_t i = 0; i < h.n; i++) {
        expect(h.host[i].slots >= 1 && *h.host[i].name && *h.host[i].name != '-' &&
               h.host[i].line >= 1);
        slots += h.host[i].slots;
    }
    expect(slots == h.slots);
    pst_hosts_close(&h);
    close(fd);
    return 0;
}
