"""bpf_object: a policy in C, compiled by clang as its author would."""

def bpf_object(name, src, out = None, **kwargs):
    """Compiles a policy.

    Args:
      name: of the target.
      src: NAME.bpf.c.
      out: the object; NAME.bpf.o unless said otherwise.
      **kwargs: such as visibility.
    """
    native.genrule(
        name = name,
        srcs = [
            src,
            "//policy/include:warpline_policy.h",
        ],
        outs = [out or src[:-1] + "o"],
        # clang's path to the source would stand in the object.
        cmd = "clang -target bpf -mcpu=v2 -O2 -Wall -Werror -I policy/include -c $(location %s) -o $@" % src,
        **kwargs
    )
