// libcomposer_cuda.so: the part of this program that is compiled against CUDA, opened at run time.
#pragma once

#include <string>

namespace composer {

/// A function of the library, which is opened by the first call: from the folder of the running
/// program, from lib/ beside that or beside its parent, or where the system finds libraries.
/// LibTorch's CUDA library must be open (open_cuda). UserError saying what is missing; purpose:
/// begins it ("ranks on GPUs need").
void* function_of_cuda_library(const char* name, const std::string& purpose);

}  // namespace composer
