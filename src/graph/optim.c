/* The table of optimizer rules. */
#include "graph/optim.h"
#include <stddef.h>
#include <string.h>

static const pst_optim_row rows[PST_OPTIM_COUNT] = {
    {PST_OPTIM_ADAMW, "adamw", 2, {"m", "v"}},
    {PST_OPTIM_SGD, "sgd", 1, {"momentum", NULL}},
    {PST_OPTIM_ADAM, "adam", 2, {"m", "v"}},
};

const pst_optim_row *pst_optim_rows(void) { return rows; }

const pst_optim_row *pst_optim_find(const char *name) {
    for (int i = 0; i < PST_OPTIM_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}
