/* Loaded before all else (LD_PRELOAD), it lets UCX say that it reaches CUDA's memory, which the UCX
 * of most machines cannot say. What a device of tests calls CUDA's is then memory of the host
 * (far_module.c, FAR_NEAR). */
#include <dlfcn.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

__attribute__((visibility("default"))) ucs_status_t ucp_context_query(ucp_context_h context,
                                                                      ucp_context_attr_t *attr) {
    union {
        void *symbol;
        ucs_status_t (*query)(ucp_context_h, ucp_context_attr_t *);
    } real = {dlsym(RTLD_NEXT, "ucp_context_query")};
    if (!real.symbol) abort();
    ucs_status_t rc = real.query(context, attr);
    if (rc == UCS_OK && attr->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES)
        attr->memory_types |= UINT64_C(1) << UCS_MEMORY_TYPE_CUDA;
    return rc;
}
