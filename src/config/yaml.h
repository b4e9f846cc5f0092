/* Reading the YAML files that people write besides run files: plans, clusters. libyaml's document,
 * whose nodes carry line and column; every complaint is EINPUT and starts with file:line:column.
 * The files are trusted in nothing. */
#ifndef PST_CONFIG_YAML_H
#define PST_CONFIG_YAML_H
#include "base/status.h"
#include <stdint.h>
#include <stdio.h>
#include <yaml.h>

enum { PST_YAML_KEYS = 24 }; /* of a mapping, at most */

typedef struct {
    const char *file, *what; /* borrowed; what: "a plan", for messages */
    yaml_document_t document;
} pst_yaml;

/* Before a text is loaded, for libyaml takes a time that grows with the square of both: EINPUT
 * where lists and mappings lie more than PST_YAML_DEPTH deep in each other, or more than
 * PST_YAML_ANCHORS nodes have names. What is no YAML is OK: who loads it says why. */
enum { PST_YAML_DEPTH = 64, PST_YAML_ANCHORS = 1024 };
pst_status pst_yaml_limit(const char *text, size_t bytes, const char *file);
/* The root node of the text is *root. Close what was opened. */
pst_status pst_yaml_open(const char *text, size_t bytes, const char *file, const char *what,
                         pst_yaml *y, const yaml_node_t **root);
void pst_yaml_close(pst_yaml *y);
/* EINPUT: where the node stands, what, detail. In front of the message of a status: where the node
 * stands. */
pst_status pst_yaml_fail(const pst_yaml *y, const yaml_node_t *node, const char *what,
                         const char *detail);
pst_status pst_yaml_at(const pst_yaml *y, const yaml_node_t *node, pst_status status);
/* The text of a scalar, "" when it is none. */
const char *pst_yaml_text(const yaml_node_t *node);
pst_status pst_yaml_whole(const pst_yaml *y, const yaml_node_t *node, uint64_t min, uint64_t max,
                          uint64_t *value);
pst_status pst_yaml_u32(const pst_yaml *y, const yaml_node_t *node, uint32_t min, uint32_t max,
                        uint32_t *value);
pst_status pst_yaml_real(const pst_yaml *y, const yaml_node_t *node, double min, double max,
                         double *value);
/* Bytes as in a run file: 512M, 8GiB. */
pst_status pst_yaml_bytes(const pst_yaml *y, const yaml_node_t *node, uint64_t *value);

/* UTF-8 as a scalar that reads back the same, quoted where it has to be. */
void pst_yaml_print_text(const char *text, FILE *out);

/* A sequence of min to max items; `of` says of what in a complaint. */
pst_status pst_yaml_list(const pst_yaml *y, const yaml_node_t *node, uint32_t min, uint32_t max,
                         const char *of, uint32_t *n);
const yaml_node_t *pst_yaml_item(pst_yaml *y, const yaml_node_t *list, uint32_t i);

typedef struct {
    const char *name;
    int required;
} pst_yaml_key;
/* Sorts the values of a mapping into value[] by the rows' order; NULL where an optional key is
 * absent. */
pst_status pst_yaml_mapping(pst_yaml *y, const yaml_node_t *node, const pst_yaml_key *row,
                            uint32_t n_row, const yaml_node_t *value[PST_YAML_KEYS]);
#endif
