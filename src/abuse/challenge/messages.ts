/** The texts of the challenge page. */

/** The texts of the challenge page. All are plain text. */
export interface ChallengeMessages {
  /** Title and heading. */
  title: string;
  /** Why the page is shown and what to do. */
  intro: string;
  /** The same, after a form was submitted. */
  formIntro: string;
  /** While a solution is verified. */
  checking: string;
  /** While the requested page is loaded again. */
  solved: string;
  /** After a solution, if a form was submitted. */
  formSolved: string;
  /** Button that leads back to the form. */
  goBack: string;
  /** The solution was refused. */
  failed: string;
  /** The widget could not be loaded. */
  unavailable: string;
  /** The solution could not be verified at the moment. */
  busy: string;
  /** The page is shown again right after a solution. */
  notKept: string;
  /** Button that starts again. */
  retry: string;
  /** Shown if JavaScript is disabled. */
  noScript: string;
}

/** Texts that replace the English ones, and their language. */
export type TranslatedMessages = Partial<ChallengeMessages> & {
  /** Language of the texts, as in `<html lang>`. Default: the option `lang`. */
  lang?: string;
};

export const ENGLISH: ChallengeMessages = {
  title: "Confirm that you are human",
  intro: "There were many requests from your connection. Complete this check to continue to the page.",
  formIntro:
    "There were many requests from your connection, so your form was not submitted. Complete this check, then submit it again.",
  checking: "Verifying…",
  solved: "Verified. Loading the page…",
  formSolved: "Verified. Go back and submit the form again.",
  goBack: "Go back to the form",
  failed: "The check was not accepted. Try again.",
  unavailable: "The check could not be loaded. Check your connection and content blockers, then try again.",
  busy: "The check can't be verified at the moment. Wait a minute, then try again.",
  notKept:
    "You completed the check, but your browser did not keep the result. Allow cookies for this site, then try again.",
  retry: "Try again",
  noScript: "This check needs JavaScript. Enable JavaScript, then load the page again.",
};
