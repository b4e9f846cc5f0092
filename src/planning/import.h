/* `penstock plan --import`: flags or a configuration of Megatron-LM, torchtitan or DeepSpeed, as
 * names and values (import_read.c), and as keys of the run file (import.c). */
#ifndef PST_PLANNING_IMPORT_H
#define PST_PLANNING_IMPORT_H
#include "planning/planning.h"

/* Names in PyTorch of the schedules that Megatron-LM and torchtitan both have. */
#define PST_TORCH_1F1B "1F1B"
#define PST_TORCH_INTERLEAVED "Interleaved1F1B"

typedef enum {
    PST_RECIPE_MEGATRON,
    PST_RECIPE_TORCHTITAN,
    PST_RECIPE_DEEPSPEED,
    PST_RECIPE_COUNT
} pst_recipe_program;
typedef struct {
    /* Megatron-LM: without "--"; torchtitan: "section.key" with '_'; DeepSpeed: "section.key" */
    char *name;
    char *value;   /* NULL: a flag without a value */
    uint32_t line; /* 0: unknown */
    int variable;  /* 1: the value has a variable of the shell, which is not expanded */
    int closed;    /* 1: words that follow are no values of this flag */
    int known;     /* 1: it has a counterpart */
} pst_recipe_item;
typedef struct {
    const char *file; /* borrowed */
    pst_recipe_program program;
    pst_recipe_item *item;
    size_t n, capacity;
} pst_recipe_file;

/* Reads words of a shell (quotes, comments, continued lines; variables are kept), the part of TOML
 * with one line per value, or JSON. The program is detected from the contents. On failure *out
 * needs no close. EINPUT: "FILE:LINE: ..."; ENOMEM. */
pst_status pst_recipe_parse(const char *text, size_t bytes, const char *file, pst_recipe_file *out);
void pst_recipe_close(pst_recipe_file *file);
/* "Megatron-LM", "torchtitan", "DeepSpeed" */
const char *pst_recipe_name(pst_recipe_program program);
#endif
