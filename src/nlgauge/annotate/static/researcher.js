"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const area = document.getElementById(button.dataset.copy);
    const told = document.querySelector("[data-copied]");
    try {
      await navigator.clipboard.writeText(area.value);
      told.textContent = "Copied.";
    } catch {
      area.focus();
      area.select();
      told.textContent = "Press Ctrl and C to copy.";
    }
  });
}
