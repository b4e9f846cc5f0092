/* Starts a training run of this program in a separate process, so that every failure of the run can
 * be reported. */
#ifndef PST_VERIFY_LAUNCH_H
#define PST_VERIFY_LAUNCH_H
#include "verify/shape.h"

enum { PST_LAUNCH_SAID = 600 };

typedef struct {
    const char *folder; /* folder of the verification; the run writes NAME/ and NAME.log in it */
    const char *name;   /* "one", "configured", ... */
    const char *file;   /* the run file */
    const char *const *override; /* overrides given by the user */
    size_t n_override;
    const pst_shape_keys *keys[2]; /* further overrides; later ones take precedence; either pointer
                                      may be NULL */
    uint32_t n_rank;
    const char *resume; /* a checkpoint; NULL: none */
    const char *fault;  /* value of PENSTOCK_FAULT; NULL: none */
    int reference;      /* 1: the kernels of kernels/ref compute */
    int repeat;         /* 1: operators are repeated by the kernels of kernels/ref */
    int whole;          /* 1: all elements are recorded */
    int takes_fault;    /* 1: if `fault` is NULL, the run gets PENSTOCK_FAULT of this process */
} pst_verify_run;

typedef struct {
    int exit_status; /* exit status of the run, or 128 + the number of the signal that ended it */
    char said[PST_LAUNCH_SAID]; /* the run's error message (pst_verify_last_line) */
} pst_verify_end;

/* Starts the run and waits until it ends. The ranks write their records to FOLDER/NAME/record; the
 * run folder is FOLDER/NAME/verify. ENOMEM: the run could not be started. A run that fails is not
 * an error of this function. */
pst_status pst_verify_launch(const pst_verify_run *run, pst_verify_end *end);
/* Between these, SIGINT, SIGTERM and SIGHUP end the program that runs, and pst_verify_process
 * fails; close passes the signal on to this process, after the caller has cleaned up. Main thread.
 */
void pst_verify_signals_open(void);
void pst_verify_signals_close(void);
/* Writes to `said` the last line of the file that begins with "penstock: ", or the last line if
 * none does. */
void pst_verify_last_line(const char *path, char said[PST_LAUNCH_SAID]);
/* Starts a program and waits until it ends; appends its output to the file `output`. env NULL: the
 * environment of this process. ENOMEM: the program could not be started. */
pst_status pst_verify_process(const char *program, char *const *argv, char *const *env,
                              const char *output, int *exit_status);
#endif
