/* Shared by hf.c and hf_export.c: parameters that are several tensors in Hugging Face's format. */
#ifndef PST_CHECKPOINT_HF_PARTS_H
#define PST_CHECKPOINT_HF_PARTS_H
#include "checkpoint/hf.h"

/* The most tensors that a parameter is there. */
enum { PST_HF_PARTS = 3 };
/* The name of tensor `part` of a parameter, as hf_name and hf_part of the model say; NULL: there is
 * none. */
const char *pst_hf_part_name(const pst_model_row *model, const pst_param *param, uint32_t part,
                             char buffer[PST_NAME_MAX], int *transposed);
/* 0: the parameter has no name there. */
uint32_t pst_hf_count_parts(const pst_model_row *model, const pst_param *param);
#endif
