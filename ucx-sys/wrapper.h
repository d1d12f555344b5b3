/* The header that the bindings are made from. */
#include <ucp/api/ucp.h>
