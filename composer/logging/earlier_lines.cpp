#include "composer/logging/earlier_lines.h"

#include <cerrno>
#include <fstream>
#include <system_error>

#include "base/error.h"

namespace composer {

void for_earlier_lines(const std::filesystem::path& file,
                       const std::function<void(const std::string& line)>& use) {
  std::error_code error;
  if (std::filesystem::status(file, error).type() == std::filesystem::file_type::not_found) return;
  errno = 0;
  std::ifstream in(file);
  const bool opened = in.is_open();
  for (std::string line; std::getline(in, line);) use(line);
  if (!opened || in.bad())
    throw RunError(file.string() + ": is there, but cannot be read: " +
                   std::generic_category().message(errno != 0 ? errno : EIO));
}

}  // namespace composer
