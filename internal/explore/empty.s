// This file is empty. With it in the package the compiler accepts a function without a body, which
// is that of another package.
