/* penstock help: the overview, the help of one command, and the files that are made from the same
 * rows: manual pages and bash completion. */
#include "cli.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    int status;
    const char *means;
} exits[] = {
    {0, "done; train: also saved and stopped by Ctrl-C"},
    {2, "wrong input"},
    {3, "a rank or link failed"},
    {4, "out of resources"},
    {5, "internal error"},
    {129, "SIGHUP (train: saved and stopped)"},
    {130, "interrupted (train: by a second Ctrl-C, nothing saved)"},
    {131, "SIGQUIT (nothing saved)"},
    {143, "SIGTERM (train: saved and stopped)"},
};
enum { N_EXIT = sizeof exits / sizeof *exits, MAX_COMMAND = 32 };

const char *pst_cli_exit_means(size_t i, int *exit_status) {
    if (i >= N_EXIT) return NULL;
    *exit_status = exits[i].status;
    return exits[i].means;
}

void pst_cli_overview(FILE *out) {
    fprintf(out, "usage: penstock COMMAND [ARGUMENT ...]\n\n"
                 "Trains models that do not fit on one device: pipeline stages, replicas and "
                 "tensor ranks over processes.\n\n");
    for (const pst_cli_command *c = pst_cli_commands; c->name; c++)
        fprintf(out, "  %-10s %s\n", c->name, c->help);
    fprintf(out, "\n  penstock COMMAND --help tells the rest; penstock --version.\n\nExit status:");
    for (int i = 0; i < N_EXIT; i++)
        fprintf(out, " %d %s%s", exits[i].status, exits[i].means, i + 1 < N_EXIT ? ";" : ".\n");
}

const pst_cli_command *pst_cli_find(const char *name) {
    const char *names[MAX_COMMAND];
    size_t n = 0;
    for (const pst_cli_command *c = pst_cli_commands; c->name; c++) {
        if (!strcmp(c->name, name)) return c;
        if (n < MAX_COMMAND) names[n++] = c->name;
    }
    const char *meant = pst_did_you_mean(name, names, n);
    if (meant) pst_cli_wrong("unknown command '%.60s'; did you mean '%s'?", name, meant);
    else pst_cli_wrong("unknown command '%.60s' (penstock --help lists them)", name);
    return NULL;
}

void pst_cli_describe(const pst_cli_command *command,
                      void (*describe)(const pst_cli_command *self, const pst_command *rows,
                                       void *to),
                      void *to) {
    char *argv[] = {(char[]){""}, NULL};
    pst_cli_call call = {
        .argc = 1, .argv = argv, .self = command, .describe = describe, .describe_to = to};
    command->run(&call);
}

/* Complains that `path` cannot be written, as errno says; returns the exit status. */
static int not_written(const char *path) {
    int scarce = errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO;
    pst_cli_wrong("cannot write %s: %s", path, strerror(errno));
    return pst_status_exit(scarce ? PST_ENOMEM : PST_EINPUT);
}

/* Takes the folders above the file away again, down to the one whose path has `made` characters. */
static void remove_folders(char *path, size_t made) {
    for (size_t n = strlen(path); made && n >= made; n--) {
        if (path[n] != '/') continue;
        path[n] = 0;
        rmdir(path);
        path[n] = '/';
    }
}

/* Makes every folder above the file, then the file; NULL with errno set. *made: length of the path
 * of the first folder that was not there, 0: all were. */
static FILE *open_below(char *path, size_t *made) {
    *made = 0;
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        int failed = mkdir(path, 0777) != 0;
        if (!failed && !*made) *made = strlen(path);
        *slash = '/';
        if (failed && errno != EEXIST) return NULL;
    }
    return fopen(path, "w");
}

static void print_completion(const pst_cli_command *command, FILE *out) {
    (void)command;
    pst_cli_completion(out);
}

static void print_keys(const pst_cli_command *command, FILE *out) {
    (void)command;
    pst_cli_manual_keys(out);
}

/* Returns the exit status. */
static int write_one(const char *folder, const char *file, const pst_cli_command *command,
                     void (*print)(const pst_cli_command *command, FILE *out)) {
    char path[4096];
    size_t made;
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path)
        return pst_cli_wrong("--write: the folder's name is too long");
    FILE *out = open_below(path, &made);
    int error = errno;
    if (out) {
        print(command, out);
        error = ferror(out) ? errno : 0;
        if (fclose(out) != 0 && !error) error = errno;
        if (!error) return 0;
        unlink(path);
    }
    remove_folders(path, made);
    errno = error;
    return not_written(path);
}

static int write_all(const char *folder) {
    int bad = write_one(folder, "man/man1/penstock.1", NULL, pst_cli_manual);
    for (const pst_cli_command *c = pst_cli_commands; c->name && !bad; c++) {
        char file[80];
        snprintf(file, sizeof file, "man/man1/penstock-%s.1", c->name);
        bad = write_one(folder, file, c, pst_cli_manual);
    }
    if (!bad) bad = write_one(folder, "man/man5/penstock.yaml.5", NULL, print_keys);
    return bad ? bad
               : write_one(folder, "bash-completion/completions/penstock", NULL, print_completion);
}

/* "penstock help train" is "penstock train --help". */
static int help_of(const char *name) {
    const pst_cli_command *command = pst_cli_find(name);
    if (!command) return pst_status_exit(PST_EINPUT);
    char word[32], help[] = "--help", *argv[] = {word, help, NULL};
    snprintf(word, sizeof word, "%s", command->name);
    return command->run(&(pst_cli_call){.argc = 2, .argv = argv, .self = command});
}

int pst_cli_help(const pst_cli_call *call) {
    const char *folder = NULL;
    const pst_option rows[] = {
        {0, "write", "DIR", PST_OPTION_STRING, 0, 0,
         "Write the manual pages (man/) and the bash completion (bash-completion/) below DIR.",
         &folder}};
    const pst_command command = {
        "penstock help", "[COMMAND]",
        "Prints the list of commands, or the help of one; or writes manual pages and bash "
        "completion, as installed below share/.",
        rows, 1};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 0, folder ? 0 : 1)) return pst_status_exit(PST_EINPUT);
    if (folder)
        return *folder ? write_all(folder) : pst_cli_wrong("--write '': expected a folder's path");
    if (n) return help_of(call->argv[1]);
    pst_cli_overview(stdout);
    return 0;
}
