/* A verification: its runs, in the order of its checks. */
#ifndef PST_VERIFY_VERIFY_H
#define PST_VERIFY_VERIFY_H
#include "penstock/run.h"
#include "prepare/prepare.h"
#include "verify/launch.h"
#include "verify/promise.h"
#include "verify/recording.h"
#include "verify/table.h"

enum { PST_VERIFY_PATH = 768 };

typedef struct {
    const pst_verify_options *options;
    FILE *out;
    pst_config *config; /* as configured, with the keys of its plan */
    pst_plan *plan;     /* NULL: none */
    pst_shape shape;
    pst_promise promise;
    pst_shape_keys one, alone; /* overrides of the runs on one rank, on tensor ranks alone */
    /* one rank, and as configured; made small */
    pst_config *config_one, *config_small;
    pst_prepared *prepared_one, *prepared;
    char folder[PST_VERIFY_PATH]; /* of all runs */
    uint64_t seed;
    /* recordings; NULL: the run has not been made, or has failed */
    pst_recording *of_one, *of_alone, *of_configured;
    pst_check_table table;
} pst_verifying;

/* How a run is made; what is not set is as configured. */
typedef struct {
    const char *name;           /* of its folder */
    const char *title;          /* for messages: "one rank" */
    const pst_shape_keys *keys; /* further overrides; may be NULL */
    uint32_t n_rank;
    const char *resume, *fault;
    int reference, whole, takes_fault; /* see pst_verify_run */
} pst_verify_way;

/* runs.c. The small run with further overrides, on one rank if there are any, prepared as the run
 * will prepare it. *config is set also on failure; the caller closes both, the configuration
 * last. */
pst_status pst_verify_prepare(const pst_verifying *v, const pst_shape_keys *keys, uint32_t n_rank,
                              pst_config **config, pst_prepared **p);
/* runs.c. Makes a run; failed: its exit status, 0 if none. ENOMEM: cannot start. */
pst_status pst_verify_make(const pst_verifying *v, const pst_verify_way *way, pst_verify_end *end);
/* The same, and reads its recording; *recording NULL if it failed, and then *check too. */
pst_status pst_verify_record(pst_verifying *v, const pst_verify_way *way, pst_check *check,
                             pst_recording **recording);
/* FOLDER/NAME/verify/checkpoints/step-STEP */
void pst_verify_checkpoint(const pst_verifying *v, const char *name, uint64_t step,
                           char path[PST_VERIFY_PATH]);
/* Removes what a run has left, once it is not needed any more. */
void pst_verify_forget(const pst_verifying *v, const char *name);

/* checks.c: one after the other; each adds rows. ENOMEM and the like only; what differs is in the
 * table. one: EINPUT if not even this run works. */
pst_status pst_verify_lists(pst_verifying *v);
pst_status pst_verify_one(pst_verifying *v);
pst_status pst_verify_tensor_ranks(pst_verifying *v);
pst_status pst_verify_configured(pst_verifying *v);
/* interrupted.c: resumed in the middle; killed and resumed. */
pst_status pst_verify_resumed(pst_verifying *v);
pst_status pst_verify_killed(pst_verifying *v);
/* checks.c */
pst_status pst_verify_reference(pst_verifying *v);
/* torch.c: PyTorch computes what one rank has recorded; skipped where there is none. */
pst_status pst_verify_torch(pst_verifying *v);
/* files.c: beside the file of --against; writes that of --save. EINPUT: of another model. */
pst_status pst_verify_against(pst_verifying *v);
#endif
