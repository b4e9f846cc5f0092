/* The checks of doctor: rows in doctor_needs.c. */
#ifndef PST_COMMANDS_DOCTOR_H
#define PST_COMMANDS_DOCTOR_H
#include <jansson.h>

/* An array of {what, there, detail, for, fix, level}; level is "needed" (training fails without
 * it), "faster" or "other". Owned by the caller; NULL: no memory. */
json_t *pst_doctor_needs(void);
#endif
