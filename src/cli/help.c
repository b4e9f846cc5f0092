/* penstock help: prints the overview or the help of one command, and writes the files that are made
 * from the same rows: manual pages and bash completion. */
#include "cli.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Prints that `path` cannot be written, with the reason from errno; returns the exit status. */
static int not_written(const char *path) {
    int scarce = errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO;
    pst_cli_wrong("cannot write %s: %s", path, strerror(errno));
    return pst_status_exit(scarce ? PST_ENOMEM : PST_EINPUT);
}

/* Removes the parent folders of the file `path`, from the innermost one to the one with a path of
 * `made` characters; made 0: none. */
static void remove_folders(char *path, size_t made) {
    for (size_t n = strlen(path); made && n >= made; n--) {
        if (path[n] != '/') continue;
        path[n] = 0;
        rmdir(path);
        path[n] = '/';
    }
}

/* Creates the parent folders of the file `path`, then the file; on failure NULL with errno set.
 * *made: length of the path of the first folder that was created; 0: none was. */
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

/* The folder to write below, and the commands to describe. */
typedef struct {
    const char *folder;
    const pst_cli_command *commands;
} target;
typedef void printer(const pst_cli_command *commands, const pst_cli_command *command, FILE *out);

static void print_completion(const pst_cli_command *commands, const pst_cli_command *command,
                             FILE *out) {
    (void)command;
    pst_cli_completion(commands, out);
}

static void print_keys(const pst_cli_command *commands, const pst_cli_command *command, FILE *out) {
    (void)command;
    pst_cli_manual_keys(commands, out);
}

/* Writes one file below to->folder; returns the exit status. */
static int write_one(const target *to, const char *file, const pst_cli_command *command,
                     printer *print) {
    char path[4096];
    size_t made;
    if (snprintf(path, sizeof path, "%s/%s", to->folder, file) >= (int)sizeof path)
        return pst_cli_wrong("--write: the path of the folder is too long");
    FILE *out = open_below(path, &made);
    int error = errno;
    if (out) {
        print(to->commands, command, out);
        error = ferror(out) ? errno : 0;
        if (fclose(out) != 0 && !error) error = errno;
        if (!error) return 0;
        unlink(path);
    }
    remove_folders(path, made);
    errno = error;
    return not_written(path);
}

static int write_all(const target *to) {
    int bad = write_one(to, "man/man1/penstock.1", NULL, pst_cli_manual);
    for (const pst_cli_command *c = to->commands; c->name && !bad; c++) {
        char file[80];
        snprintf(file, sizeof file, "man/man1/penstock-%s.1", c->name);
        bad = write_one(to, file, c, pst_cli_manual);
    }
    if (!bad) bad = write_one(to, "man/man5/penstock.yaml.5", NULL, print_keys);
    return bad ? bad
               : write_one(to, "bash-completion/completions/penstock", NULL, print_completion);
}

/* "penstock help train" prints the same as "penstock train --help". */
static int help_of(const pst_cli_command *commands, const char *name) {
    const pst_cli_command *command = pst_cli_find(commands, name);
    if (!command) return pst_status_exit(PST_EINPUT);
    char word[32], help[] = "--help", *argv[] = {word, help, NULL};
    snprintf(word, sizeof word, "%s", command->name);
    return command->run(
        &(pst_cli_call){.argc = 2, .argv = argv, .self = command, .commands = commands});
}

int pst_cli_help(const pst_cli_call *call) {
    const char *folder = NULL;
    const pst_option rows[] = {
        {0, "write", "DIR", PST_OPTION_STRING, 0, 0,
         "Folder for the manual pages (DIR/man) and the bash completion (DIR/bash-completion).",
         &folder}};
    const pst_command command = {"penstock help", "[COMMAND]",
                                 "Prints the list of commands or the help of one command. With "
                                 "--write it writes the manual pages and the bash completion.",
                                 rows, 1};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 0, folder ? 0 : 1)) return pst_status_exit(PST_EINPUT);
    if (folder)
        return *folder ? write_all(&(target){folder, call->commands})
                       : pst_cli_wrong("--write '': expected a folder's path");
    if (n) return help_of(call->commands, call->argv[1]);
    pst_cli_overview(call->commands, stdout);
    return 0;
}
