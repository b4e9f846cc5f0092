/* penstock train */
#include "cli.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Loads the run.yaml in the folder of a run or a checkpoint. */
static pst_status load_own(const char *folder, const char *const *override, size_t n,
                           pst_config **config) {
    char path[4096]; /* a longer string is no path */
    snprintf(path, sizeof path, "%s/run.yaml", folder);
    return pst_config_load(path, override, n, config);
}

/* Nonzero, after an error message, if `folder` cannot be the folder of a run or a checkpoint. */
static int check_resumed(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/run.yaml", folder);
    if (access(folder, F_OK) != 0)
        return pst_cli_wrong("--resume %.200s: %s; expected the folder of a run or a checkpoint",
                             folder,
                             errno == ENOENT ? "the folder does not exist" : strerror(errno));
    if (access(path, F_OK) != 0)
        return pst_cli_wrong(
            "--resume %.200s: no run.yaml there; expected the folder of a run or a "
            "checkpoint",
            folder);
    return 0;
}

int pst_cli_train(const pst_cli_call *call) {
    pst_train_options o = {.size = sizeof o, .runs = "runs", .argv = call->program_argv};
    pst_option rows[] = {
        {'n', "ranks", "RANKS", PST_OPTION_INT, 1, PST_RANKS_MAX,
         "Start this many ranks on this host. By default, and under mpirun or srun, the number "
         "follows from the run file and the launcher.",
         &o.ranks},
        {0, "hostfile", "FILE", PST_OPTION_STRING, 0, 0,
         "Start the ranks over ssh on the hosts in this file, one 'HOST slots=N' per line; the "
         "environment variable PENSTOCK_SSH sets another command than ssh. Each host needs this "
         "program at the same path, and the same working folder. Without -n and parallel.pipeline, "
         "one rank per slot.",
         &o.hostfile},
        {0, "runs", "DIR", PST_OPTION_STRING, 0, 0, "Folder in which the run's folder is created.",
         &o.runs},
        {0, "resume", "PATH", PST_OPTION_STRING, 0, 0,
         "Continue from PATH, a run (from its newest checkpoint) or a checkpoint. The run "
         "continues in its folder; from a checkpoint that is not the newest one, in a new folder. "
         "Without RUN.yaml, the settings saved with the checkpoint are used. The layout may "
         "change.",
         &o.resume},
        {0, "replay", "FILE", PST_OPTION_STRING, 0, 0,
         "With parallel.update async or bounded: apply gradients in the order of FILE, order.txt "
         "of "
         "an earlier run with the same layout, which gives the same weights.",
         &o.replay},
        {0, "elastic", NULL, PST_OPTION_FLAG, 0, 0,
         "Go on when a rank is killed, stopped or hangs or, with --hostfile, a host is lost: the "
         "other ranks take its part, repeat the step, and end with the same weights. Not with "
         "other launchers or GPUs.",
         &o.elastic},
        {0, "canary", NULL, PST_OPTION_FLAG, 0, 0,
         "Check at the end that nothing was written past the end of any rank's arena.", &o.canary},
        {'q', "quiet", NULL, PST_OPTION_FLAG, 0, 0, "Print only errors.", &o.quiet},
    };
    const pst_command command = {
        "penstock train", "RUN.yaml|--resume PATH [key=value ...]",
        "Trains a model and writes runs/NAME/: run.yaml, plan.yaml, metrics.jsonl, tb/ "
        "(TensorBoard), timeline.svg, trace.json, report.html and checkpoints/. The first Ctrl-C "
        "finishes the step and writes a checkpoint; a second one exits at once. SIGTERM and SIGHUP "
        "also write a checkpoint, and exit with 143 and 129; SIGUSR1 writes a checkpoint, and "
        "training continues.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done, stopped = 0;
    pst_config *config = NULL;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    int own = o.resume && (!n || (strchr(call->argv[1], '=') && access(call->argv[1], F_OK)));
    if (pst_cli_operands(&command, n, !own, (size_t)-1)) return pst_status_exit(PST_EINPUT);
    pst_cli_ignore_sigpipe();
    if (o.resume && !*o.resume)
        return pst_cli_wrong("--resume '': expected the path of a run or a checkpoint");
    if (o.hostfile && !*o.hostfile)
        return pst_cli_wrong("--hostfile '': expected the path of a file");
    if (o.replay && !*o.replay) return pst_cli_wrong("--replay '': expected the path of a file");
    if (!*o.runs) return pst_cli_wrong("--runs '': expected the path of a folder");
    if (own && (done = check_resumed(o.resume))) return done;
    pst_status status =
        own ? load_own(o.resume, (const char *const *)call->argv + 1, n, &config)
            : pst_config_load(call->argv[1], (const char *const *)call->argv + 2, n - 1, &config);
    o.stopped = &stopped;
    if (status == PST_OK) status = pst_train(config, &o);
    done = pst_cli_end(status);
    /* Batch systems expect 0 only from a complete run; after a Ctrl-C by a person 0 is right. */
    if (!done && stopped && stopped != SIGINT) done = 128 + stopped;
    pst_config_close(config);
    return done;
}
