/* Starts the process of a rank, or of a slot of an elastic job (launch_parts.h). */
#include "comm/launch/launch_environment.h"
#include "comm/launch/launch_parts.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Runs in the child after fork: other threads' locks may stay locked, so it makes system calls
 * only. */
static void become_rank(const launcher *l, uint32_t rank, const char *program, char **env,
                        pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(3); /* the launcher died before the prctl */
    setpgid(0, 0);
    dup2(l->null_fd, STDIN_FILENO);
    fcntl(l->page_fd, F_SETFD, 0);
    if (l->elastic) pst_elastic_inherit(l->elastic->page, l->elastic->fd);
    if (l->hosts && l->hosts->listener >= 0 && !rank) fcntl(l->hosts->listener, F_SETFD, 0);
    sigprocmask(SIG_SETMASK, &l->signals.before, NULL);
    execve(program, l->argv, env);
    execve("/proc/self/exe", l->argv, env);
    _exit(127);
}

pst_status pst_launch_start(launcher *l, uint32_t rank) {
    char program[4096], **env;
    ssize_t used = readlink("/proc/self/exe", program, sizeof program - 1);
    if (used <= 0)
        return pst_fail(PST_ENOMEM,
                        "cannot start ranks: cannot read /proc/self/exe: %m; run penstock doctor");
    program[used] = 0; /* the program's own path, so that ps does not show "exe" */
    PST_TRY(pst_launch_environment(l, rank, &env));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) become_rank(l, rank, program, env, parent);
    int why = errno;
    pst_launch_environment_free(env);
    if (pid < 0)
        return pst_fail(PST_ENOMEM, "cannot start rank %u: %s", l->first + rank, strerror(why));
    setpgid(pid, pid); /* in parent and child, whichever runs first */
    l->rank[rank].pid = pid;
    l->live++;
    return PST_OK;
}
