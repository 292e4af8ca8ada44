// libcomposer_cuda.so: the part of this program that is compiled against CUDA, opened at run time.
#pragma once

#include <string>

namespace composer {

/// A function of the library, which is opened by the first call: from the folder of the running
/// program, from lib/ beside that or beside its parent, or where the system finds libraries.
/// LibTorch's CUDA library must be open (open_cuda). UserError saying what is missing; purpose:
/// begins it ("ranks on GPUs need").
/// A library of another version is refused.
void* function_of_cuda_library(const char* name, const std::string& purpose);

/// The same, for what LibTorch's operators do too, more slowly: null where the library lacks it,
/// which is said once in the log.
void* faster_function_of_cuda_library(const char* name);

}  // namespace composer

/// What cuda/ was built by: a number made of the headers that say what the library and the program
/// hand each other.
extern "C" const char* composer_cuda_interface();
