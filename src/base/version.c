/* The version of the library. */
#include "penstock/run.h"

const char *pst_version(void) { return PST_VERSION; }
