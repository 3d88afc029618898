// May this process use AMX tiles?
#pragma once

namespace needle {

// Asks Linux for permission, which all threads and children of fork share, and multiplies two tiles
// in a guarded way: a CPU or a virtual machine may announce AMX and still refuse it. Only the first
// call does so.
bool has_amx();

}  // namespace needle
