/* Reads the YAML files that users write, except run files: plans, clusters. Uses libyaml's
 * document, whose nodes carry line and column; every error is EINPUT and starts with
 * file:line:column. The files are not trusted. */
#ifndef PST_CONFIG_YAML_H
#define PST_CONFIG_YAML_H
#include "base/status.h"
#include <stdint.h>
#include <stdio.h>
#include <yaml.h>

enum { PST_YAML_KEYS = 24 }; /* maximum number of keys of a mapping */

typedef struct {
    const char *file, *what; /* borrowed; what: "a plan", for messages */
    yaml_document_t document;
} pst_yaml;

/* Call before a text is loaded, because the time of libyaml grows with the square of depth and
 * anchors: EINPUT if lists and mappings are nested more than PST_YAML_DEPTH deep, or if there are
 * more than PST_YAML_ANCHORS anchors. OK for text that is not YAML; the error is reported when the
 * text is loaded. */
enum { PST_YAML_DEPTH = 64, PST_YAML_ANCHORS = 1024 };
pst_status pst_yaml_limit(const char *text, size_t bytes, const char *file);
/* Loads a text. *root: the root node, valid until the caller closes *y. */
pst_status pst_yaml_open(const char *text, size_t bytes, const char *file, const char *what,
                         pst_yaml *y, const yaml_node_t **root);
void pst_yaml_close(pst_yaml *y);
/* fail: EINPUT with the message "PLACE: WHAT DETAIL", where PLACE is file:line:column of the node.
 * at: puts the place of the node in front of the message of `status`. */
pst_status pst_yaml_fail(const pst_yaml *y, const yaml_node_t *node, const char *what,
                         const char *detail);
pst_status pst_yaml_at(const pst_yaml *y, const yaml_node_t *node, pst_status status);
/* The string of a scalar, "" for other nodes. */
const char *pst_yaml_text(const yaml_node_t *node);
pst_status pst_yaml_whole(const pst_yaml *y, const yaml_node_t *node, uint64_t min, uint64_t max,
                          uint64_t *value);
pst_status pst_yaml_u32(const pst_yaml *y, const yaml_node_t *node, uint32_t min, uint32_t max,
                        uint32_t *value);
pst_status pst_yaml_real(const pst_yaml *y, const yaml_node_t *node, double min, double max,
                         double *value);
/* Bytes as in a run file: 512M, 8GiB. */
pst_status pst_yaml_bytes(const pst_yaml *y, const yaml_node_t *node, uint64_t *value);

/* Prints UTF-8 as a scalar that reads back the same, with quotes if needed. */
void pst_yaml_print_text(const char *text, FILE *out);

/* Checks that a node is a list of min to max items, and sets *n; `of` names the items in the error
 * message. */
pst_status pst_yaml_list(const pst_yaml *y, const yaml_node_t *node, uint32_t min, uint32_t max,
                         const char *of, uint32_t *n);
const yaml_node_t *pst_yaml_item(pst_yaml *y, const yaml_node_t *list, uint32_t i);

typedef struct {
    const char *name;
    int required;
} pst_yaml_key;
/* Sorts the values of a mapping into value[], in the order of the rows; NULL for an optional key
 * that is absent. */
pst_status pst_yaml_mapping(pst_yaml *y, const yaml_node_t *node, const pst_yaml_key *row,
                            uint32_t n_row, const yaml_node_t *value[PST_YAML_KEYS]);
#endif
