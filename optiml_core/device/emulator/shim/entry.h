// entry.h - calls a kernel with the types of its own parameters.
#pragma once
template <class... P, size_t... I>
OPTIML_INLINE void optiml_call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
  kernel(*(std::remove_reference_t<P>*)arguments[I]...);
}
template <class... P> OPTIML_INLINE void optiml_call(void (*kernel)(P...), void** arguments) {
  optiml_call(kernel, arguments, std::index_sequence_for<P...>());
}
