/* Which program this is. */
#ifndef PST_BASE_VERSION_H
#define PST_BASE_VERSION_H

/* The commit that was checked out when the program was built, 12 digits; "": it was not built from
 * a repository. */
const char *pst_commit(void);
#endif
