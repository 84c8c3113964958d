/** Why the system refuses a file or a folder, in words. */
const reasons: Readonly<Record<string, string>> = {
  ENOSPC: "no space left on the disk",
  EDQUOT: "the disk quota is used up",
  EFBIG: "the file would be larger than is allowed",
  EACCES: "permission denied",
  EPERM: "not permitted",
  EROFS: "the file system is read-only",
  ENOTDIR: "a part of the path is a file",
  EEXIST: "a part of the path is a file",
  ENOENT: "there is no such file or folder",
  EISDIR: "it is a folder",
  ENAMETOOLONG: "the name is too long",
  ELOOP: "its links lead in a circle",
};

/** What the system says against a file or folder, as the part of a sentence. */
export function reasonOf(error: unknown): string {
  const { code = "", message = String(error) } = error as { code?: string; message?: string };
  return reasons[code] ?? message;
}
