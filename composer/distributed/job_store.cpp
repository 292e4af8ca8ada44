#include "composer/distributed/job_store.h"

#include <chrono>
#include <csignal>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "composer/error.h"
#include "composer/logging/log.h"

namespace composer {
namespace {

constexpr const char* run_folder_key = "composer/run_folder";

/// Of what is asked of a host that is there.
constexpr double answer_seconds = 30;

c10d::TCPStoreOptions store_options(uint16_t port, bool host, double timeout_seconds) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = host;
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
  return options;
}

/// c10d explains itself over several lines, with the call stack.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

template <class Error, class Call>
auto or_error(const std::string& what, const Call& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw Error(what + ": " + first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw Error(what + ": " + first_line(error.what()));
  }
}

template <class Call>
auto asked(const Call& call) {
  return or_error<RunError>("the store where the ranks meet does not answer", call);
}

/// The store writes to sockets whose other end may be gone: that is an error of the call, and not
/// the end of this process. A handler, as children are started with what is ignored.
void take_broken_pipes() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &action, nullptr);
}

}  // namespace

struct JobStore::Tcp {
  c10::intrusive_ptr<c10d::TCPStore> store;

  Tcp(const std::string& address, const c10d::TCPStoreOptions& options)
      : store(c10::make_intrusive<c10d::TCPStore>(address, options)) {
    take_broken_pipes();
  }
};

JobStore::JobStore(std::shared_ptr<Tcp> tcp) : tcp_(std::move(tcp)) {}

c10::intrusive_ptr<c10d::Store> JobStore::store() const { return tcp_->store; }

JobStore JobStore::host(uint16_t port, double timeout_seconds) {
  return or_error<UserError>("port " + std::to_string(port) +
                                 " cannot be listened on; another --master_port (MASTER_PORT)"
                                 " is needed, or an end of the program that has this one",
                             [&] {
                               return JobStore(std::make_shared<Tcp>(
                                   "127.0.0.1", store_options(port, true, timeout_seconds)));
                             });
}

JobStore JobStore::connect(const std::string& address, uint16_t port, double timeout_seconds) {
  return or_error<PeerError>(
      "nobody answers at " + address + ":" + std::to_string(port) + ", where the ranks are to meet",
      [&] {
        return JobStore(
            std::make_shared<Tcp>(address, store_options(port, false, timeout_seconds)));
      });
}

JobStore JobStore::of(const Place& place, double timeout_seconds) {
  if (place.rank == 0 && !place.store_is_hosted) return host(place.port, timeout_seconds);
  return connect(place.address, place.port, timeout_seconds);
}

uint16_t JobStore::port() const { return tcp_->store->getPort(); }

void JobStore::set(const std::string& key, const std::string& value) {
  asked([&] {
    tcp_->store->set(key, std::vector<uint8_t>(value.begin(), value.end()));
    return 0;
  });
}

std::optional<std::string> JobStore::get(const std::string& key) {
  return asked([&]() -> std::optional<std::string> {
    if (!tcp_->store->check({key})) return {};
    const auto bytes = tcp_->store->get(key);
    return std::string(bytes.begin(), bytes.end());
  });
}

int64_t JobStore::add(const std::string& key, int64_t value) {
  return asked([&] { return tcp_->store->add(key, value); });
}

void tell_run_folder(const std::filesystem::path& folder) {
  const auto place = place_of_process();
  if (!place.store_is_hosted) return;
  const auto path = std::filesystem::absolute(folder);
  JobStore::of(place, answer_seconds).set(run_folder_key, path.string());
  if (place.by_launcher)
    log::also_in(path / "logs" / ("rank" + std::to_string(place.rank) + ".log"));
}

std::optional<std::filesystem::path> told_run_folder(JobStore& store) {
  const auto text = store.get(run_folder_key);
  return text ? std::optional<std::filesystem::path>(*text) : std::nullopt;
}

std::optional<std::filesystem::path> told_run_folder(const Place& place) {
  if (!place.store_is_hosted) return {};
  auto store = JobStore::of(place, answer_seconds);
  return told_run_folder(store);
}

}  // namespace composer
