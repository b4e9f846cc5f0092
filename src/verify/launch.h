/* Starts a training run of this program as a process of its own, so that whatever happens to it
 * can be reported. */
#ifndef PST_VERIFY_LAUNCH_H
#define PST_VERIFY_LAUNCH_H
#include "verify/shape.h"

enum { PST_LAUNCH_SAID = 600 };

typedef struct {
    const char *folder;          /* of the verification: NAME/ and NAME.log in it are the run's */
    const char *name;            /* "one", "configured", ... */
    const char *file;            /* the run file */
    const char *const *override; /* the user's own */
    size_t n_override;
    const pst_shape_keys *keys[2]; /* either may be NULL; later ones win */
    uint32_t n_rank;
    const char *resume; /* a checkpoint; NULL: none */
    const char *fault;  /* PENSTOCK_FAULT; NULL: none */
    int reference;      /* computed by kernels/ref */
    int whole;          /* all elements are recorded */
    int takes_fault;    /* without `fault`: PENSTOCK_FAULT of this process is in effect */
} pst_verify_run;

typedef struct {
    int exit_status;            /* 128 + the signal that ended it */
    char said[PST_LAUNCH_SAID]; /* its last line on standard error */
} pst_verify_end;

/* Runs it until it ends; the ranks record into FOLDER/NAME/record, its run folder is
 * FOLDER/NAME/verify. ENOMEM: it could not be started. Exit statuses other than 0 are no error
 * here. */
pst_status pst_verify_launch(const pst_verify_run *run, pst_verify_end *end);
/* Between these, SIGINT, SIGTERM and SIGHUP end the program that runs, and pst_verify_process
 * fails; close passes the signal on to this process, after the caller has cleaned up. Main thread.
 */
void pst_verify_signals_open(void);
void pst_verify_signals_close(void);
/* The last line of a file that begins with "penstock: ", else the last one. */
void pst_verify_last_line(const char *path, char said[PST_LAUNCH_SAID]);
/* Runs a program until it ends; what it writes is appended to the file `output`. env NULL: that of
 * this process. ENOMEM: it could not be started. */
pst_status pst_verify_process(const char *program, char *const *argv, char *const *env,
                              const char *output, int *exit_status);
#endif
