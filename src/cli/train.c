/* penstock train */
#include "cli.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
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

/* The value of --elastic, MIN, MIN: or MIN:MAX, as overrides of keys; "": none. Nonzero, after an
 * error message, if it is wrong. */
static int read_range(const char *text, char range[2][48]) {
    char *end;
    const long min = strtol(text, &end, 10);
    const int has_max = *end == ':' && end[1];
    const long max = has_max ? strtol(end + 1, &end, 10) : min;
    if (!*text) return 0;
    end += !has_max && *end == ':';
    if (*end || min < 1 || max < min || max > PST_RANKS_MAX)
        return pst_cli_wrong("--elastic=%.60s: expected MIN, MIN: or MIN:MAX, numbers of ranks "
                             "from 1 to %d, such as --elastic=2:8",
                             text, PST_RANKS_MAX);
    snprintf(range[0], sizeof range[0], "elastic.min=%ld", min);
    if (has_max) snprintf(range[1], sizeof range[1], "elastic.max=%ld", max);
    return 0;
}

/* The run file with the overrides of the call and those of --elastic. own: the folder that is
 * resumed, whose run file is used; else NULL. */
static pst_status load_run(const pst_cli_call *call, size_t n, const char *own, char range[2][48],
                           pst_config **config) {
    const size_t first = own ? 1 : 2, given = n + 1 - first;
    const char **override = calloc(given + 2, sizeof *override);
    size_t used = given;
    if (!override) {
        pst_cli_wrong("no memory for %zu arguments", n);
        return PST_ENOMEM;
    }
    if (given) memcpy(override, call->argv + first, given * sizeof *override);
    for (int k = 0; k < 2; k++)
        if (*range[k]) override[used++] = range[k];
    pst_status status = own ? load_own(own, override, used, config)
                            : pst_config_load(call->argv[1], override, used, config);
    free(override);
    return status;
}

int pst_cli_train(const pst_cli_call *call) {
    pst_train_options o = {.size = sizeof o, .runs = "runs", .argv = call->program_argv};
    const char *elastic = NULL;
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
         "of an earlier run with the same replicas and batches, which gives the same weights. If "
         "that run was ended early, this one ends there, too.",
         &o.replay},
        {0, "elastic", "MIN:MAX", PST_OPTION_OPTIONAL, 0, 0,
         "Go on when a rank is killed, stopped or hangs or, with --hostfile, a host is lost: the "
         "other ranks take its part, repeat the step, and end with the same weights. penstock "
         "resize changes the number of ranks on one host. MIN, MIN: or MIN:MAX (elastic.min, "
         "elastic.max): how many ranks there may be, by default at least 1. Not with other "
         "launchers or GPUs.",
         &elastic},
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
    char range[2][48] = {"", ""};
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
    o.elastic = elastic != NULL;
    if (elastic && (done = read_range(elastic, range))) return done;
    pst_status status = load_run(call, n, own ? o.resume : NULL, range, &config);
    o.stopped = &stopped;
    if (status == PST_OK) status = pst_train(config, &o);
    done = pst_cli_end(status);
    /* Batch systems expect 0 only from a complete run; after a Ctrl-C by a person 0 is right. */
    if (!done && stopped && stopped != SIGINT) done = 128 + stopped;
    pst_config_close(config);
    return done;
}
