/* The checks of a verification, printed as a table or as JSON. */
#ifndef PST_VERIFY_TABLE_H
#define PST_VERIFY_TABLE_H
#include "verify/compare.h"

typedef enum { PST_CHECK_PASSED, PST_CHECK_FAILED, PST_CHECK_SKIPPED } pst_check_result;
enum { PST_CHECKS = 24, PST_CHECK_TEXT = 240 };

typedef struct {
    char name[64];                /* "as configured, against one rank" */
    char promise[PST_CHECK_TEXT]; /* "bitwise equal", or what is compared instead, and why */
    pst_check_result result;
    char detail[PST_CHECK_TEXT];     /* what was compared, or why the check was skipped */
    char first[PST_DIFFERENCE_TEXT]; /* FAILED: the first difference, or what failed */
    pst_comparison counts;           /* numbers of tensors; 0: none were compared */
} pst_check;

typedef struct {
    pst_check check[PST_CHECKS];
    uint32_t n;
} pst_check_table;

/* Adds a row with the result PASSED and without details. */
pst_check *pst_check_add(pst_check_table *table, const char *name, const char *promise, ...)
    PST_PRINTF(3, 4);
/* Adds a row for a comparison within a tolerance: "bitwise equality not promised: WHY; TOLERANCE".
 */
pst_check *pst_check_add_near(pst_check_table *table, const char *name, const char *why,
                              const pst_compare_options *near);
/* Set the result FAILED or SKIPPED, and the reason. */
void pst_check_fail(pst_check *check, const char *format, ...) PST_PRINTF(2, 3);
void pst_check_skip(pst_check *check, const char *format, ...) PST_PRINTF(2, 3);
/* Sets result and detail from a comparison; FAILED also if nothing was compared. */
void pst_check_compared(pst_check *check, const pst_comparison *c);
/* The number of checks with this result. */
uint32_t pst_check_count(const pst_check_table *table, pst_check_result result);
void pst_check_print(const pst_check *check, FILE *out);
pst_status pst_check_json(const pst_check_table *table, double seconds, FILE *out);
#endif
