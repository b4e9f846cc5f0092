/* The program itself, which needs only the C library. It loads the commands
 * (penstock-commands.so, everything else in this folder) and with them libpenstock and its
 * libraries. If a library is missing, it names all missing ones and their Debian packages, which
 * the dynamic loader would not do; if a system limit (ulimit) is too small to load them, it
 * names the limit. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

enum { OUT_OF_RESOURCES = 4, PATH_BYTES = 4096 };

/* Libraries that libpenstock is linked with on Debian 12; a test compares the list. */
static const struct {
    const char *file, *package, *used_for;
} libraries[] = {
    {"libdnnl.so.2", "libdnnl2", "matrix products"},
    {"libgomp.so.1", "libgomp1", "matrix products"},
    {"libucp.so.0", "libucx0", "messages between ranks"},
    {"libucs.so.0", "libucx0", "messages between ranks"},
    {"libpmix.so.2", "libpmix2", "starting ranks"},
    {"libcrypto.so.3", "libssl3", "authentication between ranks"},
    {"libhwloc.so.15", "libhwloc15", "the machine's topology"},
    {"libyaml-0.so.2", "libyaml-0-2", "run files"},
    {"libjansson.so.4", "libjansson4", "checkpoints and metrics"},
    {"libxxhash.so.0", "libxxhash0", "hashes of weights"},
    {"libz.so.1", "zlib1g", "compressed data"},
    {"libzstd.so.1", "libzstd1", "compressed data"},
    {"libpcre2-8.so.0", "libpcre2-8-0", "tokenizers"},
    {"libutf8proc.so.2", "libutf8proc2", "tokenizers"},
};
enum { N_LIBRARY = sizeof libraries / sizeof *libraries };

static int can_load(const char *file) {
    void *library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    return library != NULL; /* not closed: the process ends soon */
}

/* One line on stderr: the missing packages; or `why`, the loader's message, if the reason is
 * another one. */
static void complain(const int found[N_LIBRARY], const char *why) {
    char packages[512] = "";
    int known = 0;
    for (int i = 0; i < N_LIBRARY; i++) {
        size_t used = strlen(packages), n = strlen(libraries[i].file);
        known |= !strncmp(why, libraries[i].file, n);
        if (found[i] || (used && strstr(packages, libraries[i].package))) continue;
        snprintf(packages + used, sizeof packages - used, " %s", libraries[i].package);
    }
    if (known && *packages)
        fprintf(stderr, "penstock: cannot start, libraries are missing: apt-get install%s\n",
                packages);
    else fprintf(stderr, "penstock: cannot start: %s\n", why);
}

static void print_text(const int found[N_LIBRARY]) {
    printf("penstock      %s\nmissing, but needed:\n", PST_VERSION);
    for (int list = 0; list < 2; list++) {
        if (list) puts("found:");
        for (int i = 0; i < N_LIBRARY; i++) {
            if (found[i] != list) continue;
            printf("  %-23s for %s\n", libraries[i].file, libraries[i].used_for);
            if (!list) printf("  %-23s -> apt-get install %s\n", "", libraries[i].package);
        }
    }
}

/* The same keys as pst_doctor's JSON, as far as they are known without the libraries. */
static void print_json(const int found[N_LIBRARY]) {
    printf("{\n  \"penstock\": \"%s\",\n  \"needs\": [", PST_VERSION);
    for (int i = 0; i < N_LIBRARY; i++)
        printf("%s\n    {\"what\": \"%s\", \"there\": %s, \"detail\": \"%s\", \"for\": \"%s\", "
               "\"fix\": \"apt-get install %s\", \"level\": \"needed\"}",
               i ? "," : "", libraries[i].file, found[i] ? "true" : "false",
               found[i] ? "loads" : "does not load", libraries[i].used_for, libraries[i].package);
    puts("\n  ]\n}");
}

static int cannot_start(const char *why, int argc, char **argv) {
    int found[N_LIBRARY], json = 0;
    for (int i = 0; i < N_LIBRARY; i++) found[i] = can_load(libraries[i].file);
    for (int i = 2; i < argc; i++) json |= !strcmp(argv[i], "--json");
    if (argc > 1 && !strcmp(argv[1], "doctor")) (json ? print_json : print_text)(found);
    fflush(stdout);
    complain(found, why);
    return OUT_OF_RESOURCES;
}

/* --- limits ----------------------------------------------------------------------------------- */

/* Enough to load everything and plan something, with a margin; runs check their own needs. PMIx
 * needs most of the stack, 200 KiB. */
enum { LEAST_FILES = 12, USUAL_FILES = 1024 };
static const rlim_t KIB = 1024, LEAST_ADDRESS = 72 << 20, LEAST_DATA = 12 << 20;
static const rlim_t LEAST_STACK = 1 << 20, USUAL_STACK = 8 << 20, STACK_TO_TELL = 64 << 10;

/* Raises a soft limit to the usual value if the hard limit allows it; returns the limit. */
static rlim_t raise_limit(__rlimit_resource_t resource, rlim_t usual) {
    struct rlimit limit;
    if (getrlimit(resource, &limit)) return RLIM_INFINITY;
    if (limit.rlim_cur >= usual || limit.rlim_cur >= limit.rlim_max) return limit.rlim_cur;
    struct rlimit more = {.rlim_cur = limit.rlim_max < usual ? limit.rlim_max : usual,
                          .rlim_max = limit.rlim_max};
    return setrlimit(resource, &more) ? limit.rlim_cur : more.rlim_cur;
}

static rlim_t limit_of(__rlimit_resource_t resource) {
    struct rlimit limit;
    return getrlimit(resource, &limit) ? RLIM_INFINITY : limit.rlim_cur;
}

static int is_short(const char *what, const char *option, const char *item, rlim_t limit,
                    rlim_t needed, rlim_t unit) {
    if (limit >= needed) return 0;
    const char *of = unit == 1 ? "" : " KiB";
    fprintf(stderr,
            "penstock: %s: the limit (ulimit %s) is %llu%s, this program needs %llu%s; raise it: "
            "ulimit %s %llu, or %s in /etc/security/limits.conf\n",
            what, option, (unsigned long long)(limit / unit), of,
            (unsigned long long)(needed / unit), of, option, (unsigned long long)(needed / unit),
            item);
    return 1;
}

/* Threads take their stack size from the limit at program start, so set the default again. */
static rlim_t make_stacks(void) {
    pthread_attr_t attr;
    rlim_t before = limit_of(RLIMIT_STACK),
           now = before < LEAST_STACK ? raise_limit(RLIMIT_STACK, USUAL_STACK) : before;
    if (now == before || pthread_attr_init(&attr)) return now;
    pthread_attr_setstacksize(&attr, now);
    pthread_setattr_default_np(&attr);
    pthread_attr_destroy(&attr);
    return now;
}

/* Help and version start nothing and need less stack. */
static int only_tells(int argc, char **argv) {
    static const char *const words[] = {"help", "--help", "-h", "--version"};
    for (size_t i = 0; argc > 1 && i < sizeof words / sizeof *words; i++)
        if (!strcmp(argv[1], words[i])) return 1;
    return argc == 3 && !strcmp(argv[2], "--help");
}

static int are_limits_short(rlim_t least_stack) {
    return is_short("open files", "-n", "nofile", raise_limit(RLIMIT_NOFILE, USUAL_FILES),
                    LEAST_FILES, 1) ||
           is_short("address space", "-v", "as", limit_of(RLIMIT_AS), LEAST_ADDRESS, KIB) ||
           is_short("private memory", "-d", "data", limit_of(RLIMIT_DATA), LEAST_DATA, KIB) ||
           is_short("stack", "-s", "stack", make_stacks(), least_stack, KIB);
}

/* --- starting --------------------------------------------------------------------------------- */

/* If a standard stream is closed, the next file opened would get its number. /dev/null is opened
 * in the wrong direction on purpose: writing to a closed stdout has to fail. */
static void open_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            exit(5);
}

/* The folder of the program's file, with links resolved; without /proc, of the path that the
 * kernel was asked to execute. */
static void find_program(char folder[PATH_BYTES]) {
    ssize_t n = readlink("/proc/self/exe", folder, PATH_BYTES - 1);
    folder[n > 0 ? n : 0] = 0;
    if (n <= 0) snprintf(folder, PATH_BYTES, "%s", (const char *)getauxval(AT_EXECFN));
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    else snprintf(folder, PATH_BYTES, ".");
}

/* Loads the commands from their path relative to the program: as installed, or beside it in a
 * build. NULL: why has the reason. */
static void *load_commands(char *why, size_t bytes) {
    static const char *const places[] = {PST_COMMANDS_FROM_BIN, "penstock-commands.so"};
    char folder[PATH_BYTES], path[PATH_BYTES + 128];
    find_program(folder);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, places[i]);
        if (access(path, F_OK) != 0) continue;
        void *commands = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
        if (!commands) snprintf(why, bytes, "%s", dlerror());
        return commands;
    }
    snprintf(why, bytes, "%.400s/%s does not exist", folder, PST_COMMANDS_FROM_BIN);
    return NULL;
}

/* UCX installs a handler for SIGHUP (or UCX_DEBUG_SIGNO) when it is loaded, and
 * comm/transport/ucx_open.c removes it a little later: signals that end the program are blocked
 * until then. before: the mask without them. */
static void hold_signals(sigset_t *before) {
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGHUP);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGQUIT);
    sigaddset(&held, SIGTERM);
    sigprocmask(SIG_BLOCK, &held, before);
}

/* Set if the commands are linked in, as in sanitizer builds: the leak checker of gcc 12
 * sometimes fails on thread memory of loaded libraries. */
extern int pst_cli_main(int argc, char **argv) __attribute__((weak));

int main(int argc, char **argv) {
    char why[512] = "";
    int (*run)(int argc, char **argv) = NULL;
    /* During training, SIGUSR1 saves a checkpoint; before that there is nothing to save. */
    if (argc > 1 && !strcmp(argv[1], "train")) signal(SIGUSR1, SIG_IGN);
    open_standard_streams();
    if (are_limits_short(only_tells(argc, argv) ? STACK_TO_TELL : LEAST_STACK))
        return OUT_OF_RESOURCES;
    if (pst_cli_main) return pst_cli_main(argc, argv);
    sigset_t before;
    hold_signals(&before);
    void *commands = load_commands(why, sizeof why);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (commands) *(void **)&run = dlsym(commands, "pst_cli_main");
    return run ? run(argc, argv) : cannot_start(why, argc, argv);
}
