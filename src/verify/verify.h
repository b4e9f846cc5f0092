/* A verification: its state, runs and checks. */
#ifndef PST_VERIFY_VERIFY_H
#define PST_VERIFY_VERIFY_H
#include "penstock/run.h"
#include "prepare/prepare.h"
#include "verify/launch.h"
#include "verify/promise.h"
#include "verify/recording.h"
#include "verify/reference.h"
#include "verify/table.h"

enum { PST_VERIFY_PATH = 768 };

typedef struct {
    const pst_verify_options *options;
    FILE *out;
    pst_config *config; /* as configured, including the keys of the plan */
    pst_plan *plan;     /* NULL: none */
    pst_shape shape;
    pst_promise promise;
    pst_shape_keys one, alone; /* overrides for runs on one rank, and for runs on tensor ranks
                                  without stages and replicas */
    /* of the run on one rank, and of the run as configured; both with the smaller model */
    pst_config *config_one, *config_small;
    pst_prepared *prepared_one, *prepared;
    char folder[PST_VERIFY_PATH]; /* contains the folders of all runs */
    uint64_t seed;
    uint64_t data;           /* hash of the data set */
    pst_reference reference; /* of --against; recording NULL: none */
    /* recordings; NULL: the run was not started, or has failed */
    pst_recording *of_one, *of_alone, *of_configured;
    pst_check_table table;
} pst_verifying;

/* How a run is started; members that are not set: as configured. */
typedef struct {
    const char *name;           /* name of its folder */
    const char *title;          /* for messages: "one rank" */
    const pst_shape_keys *keys; /* further overrides; may be NULL */
    uint32_t n_rank;
    const char *resume, *fault;
    int reference, repeat, whole, takes_fault; /* see pst_verify_run */
} pst_verify_way;

/* runs.c. Prepares the run with the smaller model, as the run itself will do. keys: further
 * overrides, which replace the plan; NULL: as configured. *config is set also on failure; the
 * caller closes *p, then *config. */
pst_status pst_verify_prepare(const pst_verifying *v, const pst_shape_keys *keys, uint32_t n_rank,
                              pst_config **config, pst_prepared **p);
/* runs.c. Starts a run and waits until it ends. A run that fails is not an error: see
 * end->exit_status. ENOMEM: the run could not be started. */
pst_status pst_verify_make(const pst_verifying *v, const pst_verify_way *way, pst_verify_end *end);
/* The same, and reads the run's recording. If the run has failed, *recording is NULL and *check is
 * FAILED. ENOMEM: also if the run has ended for lack of memory or disk. */
pst_status pst_verify_record(pst_verifying *v, const pst_verify_way *way, pst_check *check,
                             pst_recording **recording);
/* FOLDER/NAME/verify/checkpoints/step-STEP */
void pst_verify_checkpoint(const pst_verifying *v, const char *name, uint64_t step,
                           char path[PST_VERIFY_PATH]);
/* Removes the files of a run that are no longer needed, unless --keep is given. */
void pst_verify_forget(const pst_verifying *v, const char *name);

/* checks.c, to be called in this order; each adds rows to the table. Differences are reported in
 * the table, not by the status. one: EINPUT if the run on one rank fails. */
pst_status pst_verify_lists(pst_verifying *v);
pst_status pst_verify_one(pst_verifying *v);
pst_status pst_verify_tensor_ranks(pst_verifying *v);
pst_status pst_verify_configured(pst_verifying *v);
/* interrupted.c: a run that is resumed in the middle, and one that is killed and resumed. */
pst_status pst_verify_resumed(pst_verifying *v);
pst_status pst_verify_killed(pst_verifying *v);
/* checks.c */
pst_status pst_verify_operators(pst_verifying *v);
pst_status pst_verify_reference(pst_verifying *v);
/* torch.c. Before the first run: EINPUT if there is no Python with PyTorch. */
pst_status pst_verify_torch_check(const pst_verifying *v);
/* torch.c: compares the run on one rank with PyTorch. */
pst_status pst_verify_torch(pst_verifying *v);
/* files.c. Before the first run: loads the file of --against, checks that the file of --save can be
 * written. EINPUT: the file is of another run. */
pst_status pst_verify_files(pst_verifying *v);
/* files.c: compares with the file of --against; writes the file of --save. */
pst_status pst_verify_against(pst_verifying *v);
#endif
