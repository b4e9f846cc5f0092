/* The launches of the reference backend, one file per operator. Read these first: they say what an operator means. */
#ifndef PST_KERNELS_REF_H
#define PST_KERNELS_REF_H
#include "kernels/kernel.h"

pst_status pst_ref_embedding_f(pst_device *device, const pst_call *call);
pst_status pst_ref_embedding_w(pst_device *device, const pst_call *call);
pst_status pst_ref_layer_norm_f(pst_device *device, const pst_call *call);
pst_status pst_ref_layer_norm_b(pst_device *device, const pst_call *call);
pst_status pst_ref_layer_norm_w(pst_device *device, const pst_call *call);
pst_status pst_ref_linear_f(pst_device *device, const pst_call *call);
pst_status pst_ref_linear_b(pst_device *device, const pst_call *call);
pst_status pst_ref_linear_w(pst_device *device, const pst_call *call);
pst_status pst_ref_attention_f(pst_device *device, const pst_call *call);
pst_status pst_ref_attention_b(pst_device *device, const pst_call *call);
pst_status pst_ref_dropout_f(pst_device *device, const pst_call *call);
pst_status pst_ref_dropout_b(pst_device *device, const pst_call *call);
pst_status pst_ref_add_f(pst_device *device, const pst_call *call);
pst_status pst_ref_sum(pst_device *device, const pst_call *call);
pst_status pst_ref_cross_entropy_f(pst_device *device, const pst_call *call);
pst_status pst_ref_cross_entropy_b(pst_device *device, const pst_call *call);
#endif
