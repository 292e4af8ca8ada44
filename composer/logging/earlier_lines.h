// What an earlier process of the run wrote.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace composer {

/// Hands each line to `use`; none where there is no such file. RunError where there is one that
/// cannot be read: it is not to be taken for empty.
void for_earlier_lines(const std::filesystem::path& file,
                       const std::function<void(const std::string& line)>& use);

}  // namespace composer
