/* The version of the library. */
#include "base/version.h"
#include "penstock/run.h"

const char *pst_version(void) { return PST_VERSION; }

const char *pst_commit(void) { return PST_COMMIT; }
