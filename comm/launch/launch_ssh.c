/* See launch_ssh.h. */
#include "comm/launch/launch_ssh.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Quotes for any shell that knows single quotes. */
static void put_quoted(const char *text, FILE *out) {
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'') fputs("'\\''", out);
        else fputc(*text, out);
    }
    fputc('\'', out);
}

/* Variables that change how the program runs. Not the ones that identify a process, and no secrets:
 * every user can list command lines. */
static int is_forwarded(const char *variable) {
    static const char *const stay[] = {
        "PENSTOCK_SECRET=",       "PENSTOCK_SSH=", "PENSTOCK_LAUNCHER=",
        "PENSTOCK_HEARTBEAT_FD=", "PENSTOCK_HOST", "PENSTOCK_LISTEN_FD="};
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        if (!strncmp(variable, stay[i], strlen(stay[i]))) return 0;
    return (!strncmp(variable, "PENSTOCK_", 9) || !strncmp(variable, "UCX_", 4)) &&
           strchr(variable, '=');
}

/* cd FOLDER && exec env VARIABLE=... PROGRAM ARGUMENT ... */
static pst_status make_command(const pst_host *host, const pst_ssh_job *job, char **command) {
    char program[4096], folder[4096], text[512];
    size_t bytes;
    ssize_t used = readlink("/proc/self/exe", program, sizeof program - 1);
    if (used <= 0 || !getcwd(folder, sizeof folder))
        return pst_fail(PST_ENOMEM,
                        "cannot find the path of this program or the current folder: %m");
    program[used] = 0;
    snprintf(text, sizeof text, "PENSTOCK_HOST_JOB=%u %u %u %s %s", job->first, job->n, job->size,
             host->name, host->address);
    FILE *out = open_memstream(command, &bytes);
    if (!out) return pst_fail(PST_ENOMEM, "no memory to start the launcher on host %s", host->name);
    fputs("cd ", out);
    put_quoted(folder, out);
    fputs(" && exec env ", out);
    put_quoted(text, out);
    for (char **at = environ; *at; at++)
        if (is_forwarded(*at)) {
            fputc(' ', out);
            put_quoted(*at, out);
        }
    fputc(' ', out);
    put_quoted(program, out);
    for (char *const *at = job->argv + 1; *at; at++) {
        fputc(' ', out);
        put_quoted(*at, out);
    }
    if (!fclose(out)) return PST_OK;
    free(*command);
    return pst_fail(PST_ENOMEM, "no memory to start the launcher on host %s", host->name);
}

/* ConnectTimeout: shorter than the time after which a host without an answer is reported. */
static char *const ssh[] = {"ssh",
                            "-o",
                            "BatchMode=yes",
                            "-o",
                            "ConnectTimeout=7",
                            "-o",
                            "ServerAliveInterval=5",
                            "-o",
                            "ServerAliveCountMax=3",
                            "-o",
                            "LogLevel=ERROR"};

/* Upper bound for the number of words of the command in `text`, or of the default one, with the
 * added ones. */
static size_t max_words(const char *text) {
    return (text ? strlen(text) / 2 + 1 : sizeof ssh / sizeof *ssh) + 3;
}

/* word: [max_words(text)]; strtok modifies text. */
static pst_status make_words(const pst_host *host, char *text, char *command, char **word) {
    size_t n = 0;
    char *rest;
    if (text) {
        for (char *w = strtok_r(text, " \t", &rest); w; w = strtok_r(NULL, " \t", &rest))
            word[n++] = w;
        if (!n)
            return pst_fail(PST_EINPUT,
                            "PENSTOCK_SSH is empty; expected a command such as 'ssh -p 2222'");
    } else if (host->is_here) {
        word[n++] = "/bin/sh";
        word[n++] = "-c";
    } else {
        for (; n < sizeof ssh / sizeof *ssh; n++) word[n] = ssh[n];
    }
    if (text || !host->is_here) word[n++] = (char *)host->name;
    word[n++] = command;
    word[n] = NULL;
    return PST_OK;
}

/* Runs in the child, in its own process group, because the launcher forwards the terminal's Ctrl-C.
 * It ends when the launcher ends, and the remote side sees the end of its input. */
static void become(char **word, int in, int err, const sigset_t *mask, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(255);
    setpgid(0, 0);
    dup2(in, STDIN_FILENO);
    dup2(err, STDERR_FILENO);
    sigprocmask(SIG_SETMASK, mask, NULL);
    signal(SIGPIPE, SIG_DFL);
    execvp(word[0], word);
    dprintf(STDERR_FILENO, "%s: %s\n", word[0], strerror(errno));
    _exit(255);
}

static pst_status start(const pst_host *host, char **word, const sigset_t *mask,
                        pst_ssh_process *process) {
    int to[2], from[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to))
        return pst_fail(PST_ENOMEM, "cannot open a socket to start the launcher on host %s: %m",
                        host->name);
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]);
        close(to[1]);
        return pst_fail(PST_ENOMEM, "cannot open a pipe to start the launcher on host %s: %m",
                        host->name);
    }
    pid_t parent = getpid(), child = fork();
    if (child == 0) become(word, to[0], from[1], mask, parent);
    int why = errno;
    close(to[0]);
    close(from[1]);
    if (child < 0) {
        close(to[1]);
        close(from[0]);
        return pst_fail(PST_ENOMEM, "cannot start %s for host %s: %s", word[0], host->name,
                        strerror(why));
    }
    setpgid(child, child);
    *process = (pst_ssh_process){.pid = child, .in = to[1], .err = from[0]};
    return PST_OK;
}

pst_status pst_launch_ssh(const pst_host *host, const pst_ssh_job *job, pst_ssh_process *process) {
    const char *given = getenv("PENSTOCK_SSH");
    char *command = NULL, *text = given ? strdup(given) : NULL,
         **word = calloc(max_words(given), sizeof *word);
    pst_status status =
        word && (text || !given)
            ? make_command(host, job, &command)
            : pst_fail(PST_ENOMEM, "no memory to start the launcher on host %s", host->name);
    if (status == PST_OK) status = make_words(host, text, command, word);
    if (status == PST_OK) status = start(host, word, job->mask, process);
    free(word);
    free(text);
    free(command);
    return status;
}
