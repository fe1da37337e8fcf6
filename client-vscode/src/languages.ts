/** VS Code's own language id for CUDA C++, and the one that some extensions contribute. */
export const LANGUAGES = ["cuda-cpp", "cuda"];

export const SECTION = "optiml";

/** The scheme of read-only documents that the server supplies for diffs. */
export const CANDIDATE_SCHEME = "optiml-candidate";
