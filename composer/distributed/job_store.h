// The store where the processes of a job meet: its ranks, and the launchers that started them.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "composer/distributed/place.h"

namespace c10d {
class Store;
}  // namespace c10d

namespace composer {

/// A value; copies are the same store. RunError when its host is gone.
class JobStore {
 public:
  /// Hosts it until the last copy goes. port: 0 for any that is free. UserError when the port
  /// cannot be had. timeout_seconds, here as below: of whoever waits in it.
  static JobStore host(uint16_t port, double timeout_seconds);
  /// Waits for the host to come. PeerError when it does not.
  static JobStore connect(const std::string& address, uint16_t port, double timeout_seconds);
  /// As this rank's place says: hosts it or connects.
  static JobStore of(const Place& place, double timeout_seconds);

  uint16_t port() const;
  void set(const std::string& key, const std::string& value);
  /// Nothing where nobody has set it; never waits for that.
  std::optional<std::string> get(const std::string& key);
  /// Adds to a number, which is 0 before; returns the sum.
  int64_t add(const std::string& key, int64_t value);

  c10::intrusive_ptr<c10d::Store> store() const;

 private:
  struct Tcp;
  explicit JobStore(std::shared_ptr<Tcp> tcp);

  std::shared_ptr<Tcp> tcp_;
};

/// Tells the launcher where the files of this process's run are, and keeps a copy of the log there
/// as the launcher does for other ranks: logs/rank0.log. Nothing where no launcher hosts the store.
void tell_run_folder(const std::filesystem::path& folder);

/// What was told, by this start of the ranks or by one before.
std::optional<std::filesystem::path> told_run_folder(JobStore& store);
std::optional<std::filesystem::path> told_run_folder(const Place& place);

}  // namespace composer
