#include "base/host_name.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "base/error.h"

namespace composer {
namespace {

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

std::string digits_of(const sockaddr& address, socklen_t size) {
  char text[NI_MAXHOST];
  ::getnameinfo(&address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

/// Nothing is sent: a datagram socket that is connected knows its own end.
std::optional<sockaddr_storage> own_end(const addrinfo& other) {
  const int descriptor = ::socket(other.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return {};
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const bool found = ::connect(descriptor, other.ai_addr, other.ai_addrlen) == 0 &&
                     ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  ::close(descriptor);
  return found ? std::optional(own) : std::nullopt;
}

std::optional<std::string> first_outer_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
        (entry->ifa_flags & IFF_UP) != 0 && !is_loopback(*entry->ifa_addr))
      return digits_of(*entry->ifa_addr, sizeof(sockaddr_in));
  return {};
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

std::string own_address_towards(const std::string& host, uint16_t port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (const int problem = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
      problem != 0)
    throw RunError("MASTER_ADDR: " + host + ": " + ::gai_strerror(problem));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const auto own = own_end(*entry);
    if (!own) continue;
    const auto& address = reinterpret_cast<const sockaddr&>(*own);
    if (is_loopback(address))
      if (auto outer = first_outer_address()) return *outer;
    return digits_of(address, entry->ai_addrlen);
  }
  throw RunError("MASTER_ADDR: there is no route to " + host + ": " + std::strerror(errno));
}

}  // namespace composer
