#include "composer/distributed/rendezvous.h"

#include <charconv>
#include <cstdlib>

#include "composer/distributed/process_group.h"
#include "composer/error.h"

namespace composer {
namespace {

int64_t number(const char* name, const char* text, int64_t least, int64_t most) {
  int64_t value = 0;
  const std::string_view word = text;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc{} || end != word.data() + word.size() || value < least || value > most)
    throw UserError(std::string(name) + ": '" + text + "' is no whole number from " +
                    std::to_string(least) + " to " + std::to_string(most) +
                    "; whoever starts the ranks sets this variable");
  return value;
}

int64_t variable(const char* name, int64_t otherwise, int64_t least, int64_t most) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : number(name, text, least, most);
}

constexpr int64_t most_ranks = 1 << 20;

}  // namespace

Place place_of_process() {
  Place place;
  place.size = variable("WORLD_SIZE", 1, 1, most_ranks);
  if (place.size > 1 && std::getenv("RANK") == nullptr)
    throw UserError("RANK: is not set, but WORLD_SIZE is " + std::to_string(place.size) +
                    "; start the ranks with composer -n, torchrun, srun or mpirun");
  place.rank = variable("RANK", 0, 0, place.size - 1);
  place.local_size = variable("LOCAL_WORLD_SIZE", place.size, 1, place.size);
  place.local_rank = variable("LOCAL_RANK", place.rank % place.local_size, 0, place.local_size - 1);
  place.node_rank = variable("NODE_RANK", place.rank / place.local_size, 0, place.size - 1);
  if (const char* const address = std::getenv("MASTER_ADDR")) place.address = address;
  place.port = static_cast<uint16_t>(variable("MASTER_PORT", place.port, 1, 65535));
  const char* const hosted = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  place.store_is_hosted = hosted != nullptr && std::string_view(hosted) == "True";
  place.restart = variable("TORCHELASTIC_RESTART_COUNT", 0, 0, most_ranks);
  return place;
}

Ranks join_ranks(const Place& place, at::Device device, double timeout_seconds) {
  if (place.size == 1) return {};
  return Ranks(join_process_group(place, device, timeout_seconds));
}

}  // namespace composer
