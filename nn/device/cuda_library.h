// libcomposer_cuda.so: the part of this program that is compiled against CUDA, opened at run time.
#pragma once

#include <string>

namespace composer {

/// A function of the library. The first call opens the library: from the folder of the running
/// program, from lib/ beside that folder or beside its parent, or where the system finds libraries.
/// LibTorch's CUDA library must be open (open_cuda). UserError if the library or the function is
/// missing, or the library is of another version; its message begins with `purpose` ("ranks on GPUs
/// need").
void* function_of_cuda_library(const char* name, const std::string& purpose);

/// The same for a function that LibTorch's operators can replace, more slowly: null where the
/// library lacks it, with one warning in the log.
void* faster_function_of_cuda_library(const char* name);

}  // namespace composer

/// A number made from the headers of the interface between cuda/ and the program, as cuda/ was
/// built with them.
extern "C" const char* composer_cuda_interface();
