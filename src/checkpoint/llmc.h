/* Weights in GPT-2 checkpoints of llm.c (prepare/llmc.h): the tensors of a kind lie one after
 * another, layer by layer. */
#ifndef PST_CHECKPOINT_LLMC_H
#define PST_CHECKPOINT_LLMC_H
#include "checkpoint/export.h"
#include "prepare/llmc.h"

/* Like pst_hf_import. */
pst_status pst_llmc_import(const char *path, const pst_graph *graph, const pst_hf_weights *weights);
/* The pst_export_fn of the format; to: pst_export_to, with type PST_F32 or PST_BF16. The padding of
 * the embedding is zeros. */
pst_status pst_llmc_export(const pst_export *e, const void *to);
#endif
