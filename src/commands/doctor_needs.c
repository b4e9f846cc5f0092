/* What training needs or profits from on a machine: one row each, with a check, its purpose, and
 * what fixes it (a Debian package, a setting). */
#include "backends/machine.h"
#include "backends/module.h"
#include "base/bytes.h"
#include "base/limit.h"
#include "comm/transport/version.h"
#include "commands/doctor.h"
#include "kernels/kernel.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

enum { DETAIL = 512, SHM_MIB_PER_RANK = 5, LEAST_FILES = 256 };

/* A check writes what it found to detail; nonzero: it is there. `name` is the row's, for checks
 * that several rows share. */
typedef int check(const char *name, char detail[DETAIL]);

/* --- looking ---------------------------------------------------------------------------------- */

static int say_errno(char detail[DETAIL], const char *what) {
    snprintf(detail, DETAIL, "%s: %s", what, strerror(errno));
    return 0;
}

/* First line of a file without its newline; "absent" if there is no file. */
static void first_line(const char *path, char line[DETAIL]) {
    FILE *f = fopen(path, "r");
    snprintf(line, DETAIL, "absent");
    if (f && fgets(line, DETAIL, f)) line[strcspn(line, "\n")] = 0;
    if (f) fclose(f);
}

static int on_path(const char *program, char detail[DETAIL]) {
    const char *path = getenv("PATH");
    while (path && *path) {
        int n = (int)strcspn(path, ":");
        snprintf(detail, DETAIL, "%.*s/%s", n, path, program);
        if (access(detail, X_OK) == 0) return 1;
        path += n + (path[n] == ':');
    }
    snprintf(detail, DETAIL, "not on PATH");
    return 0;
}

static int check_proc(const char *name, char detail[DETAIL]) {
    (void)name;
    snprintf(detail, DETAIL, "/proc/self/exe");
    return access("/proc/self/exe", X_OK) == 0 || say_errno(detail, "/proc/self/exe");
}

/* Whether the receive buffers of one rank per processor fit. */
static int check_shm(const char *name, char detail[DETAIL]) {
    (void)name;
    char object[64];
    struct statvfs fs;
    snprintf(object, sizeof object, "/pst-doctor-%ld", (long)getpid());
    int fd = shm_open(object, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0) return say_errno(detail, "/dev/shm");
    shm_unlink(object);
    int failed = fstatvfs(fd, &fs);
    close(fd);
    if (failed) return say_errno(detail, "/dev/shm");
    double mib = (double)fs.f_bavail * (double)fs.f_frsize / 1048576;
    uint32_t ranks = pst_machine_cpus() > 2 ? pst_machine_cpus() : 2;
    snprintf(detail, DETAIL, "/dev/shm: %.0f MiB free, enough for %.0f ranks", mib,
             mib / SHM_MIB_PER_RANK);
    return mib >= (double)ranks * SHM_MIB_PER_RANK;
}

static int check_temporary(const char *name, char detail[DETAIL]) {
    (void)name;
    const char *tmp = getenv("TMPDIR");
    char folder[DETAIL];
    snprintf(folder, sizeof folder, "%.400s/penstock-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    snprintf(detail, DETAIL, "%.400s", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) return say_errno(detail, tmp && *tmp ? tmp : "/tmp");
    rmdir(folder);
    return 1;
}

/* "limit 1024 open files"; counted NULL: bytes, "limit 8192 KiB". */
static int check_limit(int resource, rlim_t least, const char *counted, char detail[DETAIL]) {
    struct rlimit limit;
    char bytes[PST_BYTES_TEXT];
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
        return say_errno(detail, "getrlimit");
    if (limit.rlim_cur == RLIM_INFINITY) snprintf(detail, DETAIL, "no limit");
    else if (counted)
        snprintf(detail, DETAIL, "limit %llu %s", (unsigned long long)limit.rlim_cur, counted);
    else
        snprintf(detail, DETAIL, "limit %s",
                 pst_bytes_text(limit.rlim_cur, PST_KIB, PST_KIB, 0, bytes));
    return limit.rlim_cur >= least; /* RLIM_INFINITY is the largest number */
}

static int check_files(const char *name, char detail[DETAIL]) {
    (void)name;
    return check_limit(RLIMIT_NOFILE, LEAST_FILES, "open files", detail);
}

/* Threads and processes of one rank per processor, at least two ranks, and their launcher. */
static int check_tasks(const char *name, char detail[DETAIL]) {
    (void)name;
    uint32_t ranks = pst_machine_cpus() > 2 ? pst_machine_cpus() : 2;
    uint64_t each = 1 + pst_limit_of_rank(2, 1, 0).tasks;
    uint32_t wanted = ranks < 64 ? (uint32_t)(ranks * each) : (uint32_t)(64 * each),
             got = pst_limit_tasks(wanted);
    check_limit(RLIMIT_NPROC, 0, "processes and threads of this user", detail);
    size_t used = strlen(detail);
    snprintf(detail + used, DETAIL - used,
             "; %u of the %u processes and threads of %u ranks can be started", got, wanted,
             wanted / (uint32_t)each);
    return got == wanted;
}

static int check_stack(const char *name, char detail[DETAIL]) {
    (void)name;
    return check_limit(RLIMIT_STACK, PST_LIMIT_STACK, NULL, detail);
}

static int check_file_size(const char *name, char detail[DETAIL]) {
    (void)name;
    return check_limit(RLIMIT_FSIZE, pst_limit_of_rank(2, 1, 0).file, NULL, detail);
}

static int check_private(const char *name, char detail[DETAIL]) {
    (void)name;
    return check_limit(RLIMIT_DATA, RLIM_INFINITY, NULL, detail);
}

static int check_locked(const char *name, char detail[DETAIL]) {
    (void)name;
    return check_limit(RLIMIT_MEMLOCK, RLIM_INFINITY, NULL, detail);
}

static int check_address_space(const char *name, char detail[DETAIL]) {
    (void)name;
    return check_limit(RLIMIT_AS, RLIM_INFINITY, NULL, detail);
}

/* Whether UCX has one of the transports in `any` ("posix|sysv"). */
static int has_transport(const char *any, char detail[DETAIL]) {
    char word[64];
    pst_comm_ucx_resources(detail, DETAIL);
    for (; *any; any += strcspn(any, "|") + (any[strcspn(any, "|")] == '|')) {
        snprintf(word, sizeof word, "%.*s/", (int)strcspn(any, "|"), any);
        if (strstr(detail, word)) return 1;
    }
    return 0;
}

static int check_local(const char *name, char detail[DETAIL]) {
    (void)name;
    return has_transport("posix", detail);
}

static int check_tcp(const char *name, char detail[DETAIL]) {
    (void)name;
    return has_transport("tcp", detail);
}

static int check_instructions(const char *name, char detail[DETAIL]) {
    (void)name;
    uint32_t isa = pst_cpu_isa();
    const char *best = isa & PST_ISA_AVX2 ? "AVX2" : "neither";
    if (isa & PST_ISA_AVX512) best = "AVX-512";
    snprintf(detail, DETAIL, "%s", best);
    return (isa & (PST_ISA_AVX2 | PST_ISA_AVX512)) != 0;
}

static int check_level(const char *name, char detail[DETAIL]) {
    const char *level = getenv(name);
    if (pst_cpu_isa_check() != PST_OK) {
        snprintf(detail, DETAIL, "%s", pst_error());
        pst_error_clear();
        return 0;
    }
    snprintf(detail, DETAIL, "%s",
             level && *level ? level : "not set: the best instruction set of this CPU");
    return 1;
}

static int check_huge_pages(const char *name, char detail[DETAIL]) {
    (void)name;
    first_line("/sys/kernel/mm/transparent_hugepage/enabled", detail);
    return strcmp(detail, "absent") != 0 && !strstr(detail, "[never]");
}

/* Single-copy transfers between ranks read each other's memory; the kernel or a sandbox may
 * forbid it. */
static int check_cma(const char *name, char detail[DETAIL]) {
    (void)name;
    char scope[DETAIL];
    int from = 42, to = 0;
    struct iovec local = {&to, sizeof to}, remote = {&from, sizeof from};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)sizeof to)
        return say_errno(detail, "process_vm_readv");
    first_line("/proc/sys/kernel/yama/ptrace_scope", scope);
    snprintf(detail, DETAIL, "kernel.yama.ptrace_scope = %.40s", scope);
    return strtol(scope, NULL, 10) <= 0 || geteuid() == 0;
}

static int check_topology(const char *name, char detail[DETAIL]) {
    (void)name;
    int online = access("/sys/devices/system/cpu/online", R_OK) == 0 ||
                 say_errno(detail, "/sys/devices/system/cpu");
    if (online) snprintf(detail, DETAIL, "/sys/devices/system/cpu");
    return online;
}

/* Opens a nameless temporary file in this folder; -1 with errno. */
static int open_here(int flags) {
    int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
    char file[] = ".penstock-doctor-XXXXXX"; /* for file systems without nameless files */
    fd = mkostemp(file, O_CLOEXEC | flags);
    if (fd >= 0) unlink(file);
    return fd;
}

static int check_folder(const char *name, char detail[DETAIL]) {
    (void)name;
    struct statvfs fs;
    int fd = open_here(0), why = errno;
    if (!getcwd(detail, DETAIL / 2)) snprintf(detail, DETAIL, "this folder");
    if (fd >= 0) close(fd);
    size_t used = strlen(detail);
    if (fd < 0) snprintf(detail + used, DETAIL - used, ": %s", strerror(why));
    else if (statvfs(".", &fs) == 0)
        snprintf(detail + used, DETAIL - used, ": %.1f GiB free",
                 (double)fs.f_bavail * (double)fs.f_frsize / 0x1p30);
    return fd >= 0;
}

static int check_direct(const char *name, char detail[DETAIL]) {
    (void)name;
    int fd = open_here(O_DIRECT);
    if (fd < 0) return say_errno(detail, "O_DIRECT in this folder");
    close(fd);
    snprintf(detail, DETAIL, "O_DIRECT in this folder");
    return 1;
}

static int check_rdma(const char *name, char detail[DETAIL]) {
    (void)name;
    pst_comm_ucx_inter_host(detail, DETAIL);
    return !strncmp(detail, "RDMA", 4);
}

/* The accelerator module and what it needs. */
static int check_cuda(const char *name, char detail[DETAIL]) {
    (void)name;
    const pst_device_config config = {.threads = 1};
    const pst_module *m = pst_module_get();
    const char *why = m ? NULL : pst_module_why();
    if (m && m->device->reject) why = m->device->reject(&config);
    snprintf(detail, DETAIL, "%s", why ? why : "the module loads and finds a GPU");
    return !why;
}

/* --- the rows --------------------------------------------------------------------------------- */

static const struct {
    const char *level, *what, *used_for, *fix;
    check *run;
} rows[] = {
    {"needed", "/proc", "starting ranks", "mount -t proc proc /proc", check_proc},
    {"needed", "shared memory", "messages between ranks of one host",
     "mount a larger tmpfs on /dev/shm; in a container --shm-size=1g", check_shm},
    {"needed", "temporary folder", "starting ranks", "set TMPDIR to a folder that can be written",
     check_temporary},
    {"needed", "open files", "connections between ranks", "ulimit -n 1024", check_files},
    {"needed", "processes", "starting ranks and their threads",
     "ulimit -u unlimited; in a container a larger --pids-limit", check_tasks},
    {"needed", "stack", "the libraries that ranks load", "ulimit -s 8192", check_stack},
    {"needed", "file size", "shared memory of ranks, and checkpoints", "ulimit -f unlimited",
     check_file_size},
    {"needed", "UCX shared memory", "messages between ranks of one host",
     "apt-get install --reinstall libucx0; unset UCX_TLS", check_local},
    {"needed", "PENSTOCK_ISA", "limiting the instruction set",
     "unset PENSTOCK_ISA, or set a level that this CPU supports", check_level},
    {"faster", "AVX2 or AVX-512", "fast kernels (else plain C)",
     "use a newer processor; in a virtual machine, set the CPU type host", check_instructions},
    {"faster", "cross-memory attach", "large messages in one copy (else in two)",
     "sysctl kernel.yama.ptrace_scope=0; in a container --cap-add=SYS_PTRACE", check_cma},
    {"faster", "transparent huge pages", "fewer page faults in large arenas",
     "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled", check_huge_pages},
    {"faster", "topology", "caches and NUMA nodes (hwloc)", "mount -t sysfs sysfs /sys",
     check_topology},
    {"faster", "direct I/O", "checkpoints that bypass the page cache (else they use it)",
     "use a folder on a file system with direct I/O", check_direct},
    {"other", "writable folder", "runs/ (or --runs DIR)", "use another folder, or --runs DIR",
     check_folder},
    {"other", "address space", "arenas of any size", "ulimit -v unlimited", check_address_space},
    {"other", "private memory", "arenas of any size", "ulimit -d unlimited", check_private},
    {"other", "UCX TCP", "ranks on several hosts",
     "bring up a network interface (ip link); unset UCX_TLS", check_tcp},
    {"other", "mpirun", "starting ranks with mpirun (penstock train -n works without)",
     "apt-get install openmpi-bin", on_path},
    {"other", "srun", "starting ranks with srun --mpi=pmix", "apt-get install slurm-client",
     on_path},
    {"other", "perf", "measuring kernels with hardware counters", "apt-get install linux-perf",
     on_path},
    {"other", "tensorboard", "viewing a run's tb/ folder", "pip install tensorboard", on_path},
    {"other", "RDMA", "fast messages between hosts (else TCP)",
     "install an InfiniBand or RoCE adapter with driver; apt-get install ibverbs-providers; unset "
     "UCX_TLS",
     check_rdma},
    {"other", "locked memory", "RDMA between hosts",
     "ulimit -l unlimited (systemd: LimitMEMLOCK=infinity)", check_locked},
    {"other", "CUDA", "computing on GPUs",
     "install an NVIDIA GPU with driver, and cuBLASLt and cuDNN both to build and to run penstock",
     check_cuda},
};

json_t *pst_doctor_needs(void) {
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char detail[DETAIL] = "";
        int there = rows[i].run(rows[i].what, detail);
        json_t *need =
            json_pack("{s:s,s:b,s:s,s:s,s:s,s:s}", "what", rows[i].what, "there", there, "detail",
                      detail, "for", rows[i].used_for, "fix", rows[i].fix, "level", rows[i].level);
        if (!need || json_array_append_new(list, need) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
