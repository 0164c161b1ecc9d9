// Made by the contract server's command texts from the server's language files.

/** The texts an app cannot do without, by language and key. */
export const builtInTexts: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "ar": {
    "ai_service_busy_retrying": "خدمة الذكاء الاصطناعي مشغولة. تجري إعادة المحاولة تلقائيًا…",
    "ai_workload_classification_error": "تعذّر تصنيف جلستك في الوقت الحالي. يمكنك إعادة المحاولة أو العودة لاحقًا.",
    "ai_workload_guidance_error": "تعذّر إعداد الإرشادات الخاصة بك في الوقت الحالي. يمكنك إعادة المحاولة أو العودة لاحقًا.",
    "ai_workload_retry_button": "إعادة المحاولة",
    "ai_workload_summary_error": "تعذّر إنشاء ملخص جلستك في الوقت الحالي. يمكنك إعادة المحاولة أو العودة لاحقًا.",
    "session_see_later": "سأطّلع على هذا لاحقًا",
    "session_summary_compiling": "جارٍ إنشاء ملخص جلستك…",
    "session_summary_taking_longer": "يستغرق الملخص وقتًا أطول من المعتاد. لا داعي للانتظار هنا، فنحن نواصل العمل عليه."
  },
  "da": {
    "ai_service_busy_retrying": "AI-tjenesten er optaget. Prøver automatisk igen…",
    "ai_workload_classification_error": "Vi kunne ikke klassificere din session lige nu. Du kan prøve igen eller vende tilbage senere.",
    "ai_workload_guidance_error": "Vi kunne ikke lave din vejledning lige nu. Du kan prøve igen eller vende tilbage senere.",
    "ai_workload_retry_button": "Prøv igen",
    "ai_workload_summary_error": "Vi kunne ikke lave dit resumé lige nu. Du kan prøve igen eller vende tilbage senere.",
    "session_see_later": "Jeg ser det senere",
    "session_summary_compiling": "Laver dit resumé…",
    "session_summary_taking_longer": "Dit resumé tager længere tid end normalt. Du behøver ikke vente her – vi arbejder videre på det."
  },
  "de": {
    "ai_service_busy_retrying": "Der KI-Dienst ist ausgelastet. Neuer Versuch folgt automatisch…",
    "ai_workload_classification_error": "Ihre Sitzung konnte gerade nicht eingeordnet werden. Sie können es noch einmal versuchen oder später wiederkommen.",
    "ai_workload_guidance_error": "Ihre Empfehlungen konnten gerade nicht erstellt werden. Sie können es noch einmal versuchen oder später wiederkommen.",
    "ai_workload_retry_button": "Erneut versuchen",
    "ai_workload_summary_error": "Ihre Zusammenfassung konnte gerade nicht erstellt werden. Sie können es noch einmal versuchen oder später wiederkommen.",
    "session_see_later": "Ich sehe es mir später an",
    "session_summary_compiling": "Ihre Zusammenfassung wird erstellt…",
    "session_summary_taking_longer": "Ihre Zusammenfassung dauert länger als sonst. Sie müssen hier nicht warten – wir arbeiten weiter daran."
  },
  "en": {
    "ai_service_busy_retrying": "The AI service is busy. Retrying automatically…",
    "ai_workload_classification_error": "We couldn’t classify your session right now. You can try again, or come back to it later.",
    "ai_workload_guidance_error": "We couldn’t create your guidance right now. You can try again, or come back to it later.",
    "ai_workload_retry_button": "Try again",
    "ai_workload_summary_error": "We couldn’t create your session summary right now. You can try again, or come back to it later.",
    "session_see_later": "I’ll see this later",
    "session_summary_compiling": "Creating your session summary…",
    "session_summary_taking_longer": "Your summary is taking longer than usual. You don’t have to wait here; we’ll keep working on it."
  },
  "es": {
    "ai_service_busy_retrying": "El servicio de IA está ocupado. Se reintentará automáticamente…",
    "ai_workload_classification_error": "No hemos podido clasificar tu sesión en este momento. Puedes volver a intentarlo o regresar más tarde.",
    "ai_workload_guidance_error": "No hemos podido preparar tus recomendaciones en este momento. Puedes volver a intentarlo o regresar más tarde.",
    "ai_workload_retry_button": "Reintentar",
    "ai_workload_summary_error": "No hemos podido crear tu resumen en este momento. Puedes volver a intentarlo o regresar más tarde.",
    "session_see_later": "Lo veré más tarde",
    "session_summary_compiling": "Creando tu resumen…",
    "session_summary_taking_longer": "Tu resumen está tardando más de lo habitual. No hace falta que esperes aquí; seguimos trabajando en él."
  },
  "fi": {
    "ai_service_busy_retrying": "Tekoälypalvelu on varattu. Yritetään automaattisesti uudelleen…",
    "ai_workload_classification_error": "Istuntosi luokittelu ei onnistunut juuri nyt. Voit yrittää uudelleen tai palata myöhemmin.",
    "ai_workload_guidance_error": "Ohjeidesi laatiminen ei onnistunut juuri nyt. Voit yrittää uudelleen tai palata myöhemmin.",
    "ai_workload_retry_button": "Yritä uudelleen",
    "ai_workload_summary_error": "Yhteenvetosi luominen ei onnistunut juuri nyt. Voit yrittää uudelleen tai palata myöhemmin.",
    "session_see_later": "Katson tätä myöhemmin",
    "session_summary_compiling": "Yhteenvetoasi luodaan…",
    "session_summary_taking_longer": "Yhteenveto kestää tavallista kauemmin. Sinun ei tarvitse odottaa tässä – jatkamme sen tekemistä."
  },
  "fr": {
    "ai_service_busy_retrying": "Le service d’IA est occupé. Nouvel essai automatique…",
    "ai_workload_classification_error": "Nous n’avons pas pu classer votre session pour le moment. Vous pouvez réessayer ou revenir plus tard.",
    "ai_workload_guidance_error": "Nous n’avons pas pu préparer vos conseils pour le moment. Vous pouvez réessayer ou revenir plus tard.",
    "ai_workload_retry_button": "Réessayer",
    "ai_workload_summary_error": "Nous n’avons pas pu créer votre résumé pour le moment. Vous pouvez réessayer ou revenir plus tard.",
    "session_see_later": "Je verrai cela plus tard",
    "session_summary_compiling": "Création de votre résumé…",
    "session_summary_taking_longer": "Votre résumé prend plus de temps que d’habitude. Inutile d’attendre ici, nous continuons d’y travailler."
  },
  "it": {
    "ai_service_busy_retrying": "Il servizio di IA è occupato. Nuovo tentativo automatico…",
    "ai_workload_classification_error": "Al momento non siamo riusciti a classificare la tua sessione. Puoi riprovare o tornare più tardi.",
    "ai_workload_guidance_error": "Al momento non siamo riusciti a preparare i tuoi suggerimenti. Puoi riprovare o tornare più tardi.",
    "ai_workload_retry_button": "Riprova",
    "ai_workload_summary_error": "Al momento non siamo riusciti a creare il tuo riepilogo. Puoi riprovare o tornare più tardi.",
    "session_see_later": "Lo guardo più tardi",
    "session_summary_compiling": "Creazione del tuo riepilogo…",
    "session_summary_taking_longer": "Il riepilogo richiede più tempo del solito. Non serve aspettare qui: continuiamo a lavorarci."
  },
  "ja": {
    "ai_service_busy_retrying": "AIサービスが混み合っています。自動的に再試行しています…",
    "ai_workload_classification_error": "現在、セッションを分類できませんでした。もう一度お試しいただくか、後ほどご確認ください。",
    "ai_workload_guidance_error": "現在、アドバイスを作成できませんでした。もう一度お試しいただくか、後ほどご確認ください。",
    "ai_workload_retry_button": "もう一度試す",
    "ai_workload_summary_error": "現在、セッションの要約を作成できませんでした。もう一度お試しいただくか、後ほどご確認ください。",
    "session_see_later": "後で確認する",
    "session_summary_compiling": "セッションの要約を作成しています…",
    "session_summary_taking_longer": "要約の作成に通常より時間がかかっています。この画面でお待ちいただかなくても、作成は続きます。"
  },
  "ko": {
    "ai_service_busy_retrying": "AI 서비스가 바빠요. 자동으로 다시 시도하고 있어요…",
    "ai_workload_classification_error": "지금은 세션을 분류하지 못했어요. 다시 시도하거나 나중에 확인해 주세요.",
    "ai_workload_guidance_error": "지금은 안내 내용을 만들지 못했어요. 다시 시도하거나 나중에 확인해 주세요.",
    "ai_workload_retry_button": "다시 시도",
    "ai_workload_summary_error": "지금은 세션 요약을 만들지 못했어요. 다시 시도하거나 나중에 확인해 주세요.",
    "session_see_later": "나중에 볼게요",
    "session_summary_compiling": "세션 요약을 만들고 있어요…",
    "session_summary_taking_longer": "요약에 평소보다 시간이 더 걸리고 있어요. 여기서 기다리지 않아도 계속 만들고 있을게요."
  },
  "nb": {
    "ai_service_busy_retrying": "AI-tjenesten er opptatt. Prøver igjen automatisk…",
    "ai_workload_classification_error": "Vi klarte ikke å klassifisere økten din akkurat nå. Du kan prøve igjen eller komme tilbake senere.",
    "ai_workload_guidance_error": "Vi klarte ikke å lage veiledningen din akkurat nå. Du kan prøve igjen eller komme tilbake senere.",
    "ai_workload_retry_button": "Prøv igjen",
    "ai_workload_summary_error": "Vi klarte ikke å lage sammendraget ditt akkurat nå. Du kan prøve igjen eller komme tilbake senere.",
    "session_see_later": "Jeg ser dette senere",
    "session_summary_compiling": "Lager sammendraget ditt…",
    "session_summary_taking_longer": "Sammendraget tar lengre tid enn vanlig. Du trenger ikke å vente her – vi jobber videre med det."
  },
  "nl": {
    "ai_service_busy_retrying": "Het is druk bij de AI-dienst. We proberen het automatisch opnieuw…",
    "ai_workload_classification_error": "We konden je sessie nu niet indelen. Je kunt het opnieuw proberen of later terugkomen.",
    "ai_workload_guidance_error": "We konden je advies nu niet maken. Je kunt het opnieuw proberen of later terugkomen.",
    "ai_workload_retry_button": "Opnieuw proberen",
    "ai_workload_summary_error": "We konden je samenvatting nu niet maken. Je kunt het opnieuw proberen of later terugkomen.",
    "session_see_later": "Ik bekijk dit later",
    "session_summary_compiling": "Je samenvatting wordt gemaakt…",
    "session_summary_taking_longer": "Je samenvatting duurt langer dan normaal. Je hoeft hier niet te wachten; we werken eraan door."
  },
  "pl": {
    "ai_service_busy_retrying": "Usługa AI jest zajęta. Ponowimy próbę automatycznie…",
    "ai_workload_classification_error": "Nie udało się teraz sklasyfikować Twojej sesji. Możesz spróbować ponownie albo wrócić później.",
    "ai_workload_guidance_error": "Nie udało się teraz przygotować wskazówek dla Ciebie. Możesz spróbować ponownie albo wrócić później.",
    "ai_workload_retry_button": "Spróbuj ponownie",
    "ai_workload_summary_error": "Nie udało się teraz utworzyć podsumowania Twojej sesji. Możesz spróbować ponownie albo wrócić później.",
    "session_see_later": "Zobaczę to później",
    "session_summary_compiling": "Tworzymy podsumowanie Twojej sesji…",
    "session_summary_taking_longer": "Podsumowanie zajmuje więcej czasu niż zwykle. Nie musisz tu czekać – dalej nad nim pracujemy."
  },
  "pt": {
    "ai_service_busy_retrying": "O serviço de IA está ocupado. Nova tentativa automática…",
    "ai_workload_classification_error": "Não foi possível classificar sua sessão agora. Você pode tentar novamente ou voltar mais tarde.",
    "ai_workload_guidance_error": "Não foi possível preparar suas orientações agora. Você pode tentar novamente ou voltar mais tarde.",
    "ai_workload_retry_button": "Tentar novamente",
    "ai_workload_summary_error": "Não foi possível criar seu resumo agora. Você pode tentar novamente ou voltar mais tarde.",
    "session_see_later": "Vejo isso mais tarde",
    "session_summary_compiling": "Criando seu resumo…",
    "session_summary_taking_longer": "Seu resumo está demorando mais que o normal. Não é preciso esperar aqui; continuamos trabalhando nele."
  },
  "sv": {
    "ai_service_busy_retrying": "AI-tjänsten är upptagen. Försöker igen automatiskt…",
    "ai_workload_classification_error": "Vi kunde inte klassificera din session just nu. Du kan försöka igen eller komma tillbaka senare.",
    "ai_workload_guidance_error": "Vi kunde inte ta fram din vägledning just nu. Du kan försöka igen eller komma tillbaka senare.",
    "ai_workload_retry_button": "Försök igen",
    "ai_workload_summary_error": "Vi kunde inte skapa din sammanfattning just nu. Du kan försöka igen eller komma tillbaka senare.",
    "session_see_later": "Jag tittar på det senare",
    "session_summary_compiling": "Skapar din sammanfattning…",
    "session_summary_taking_longer": "Sammanfattningen tar längre tid än vanligt. Du behöver inte vänta här – vi fortsätter att arbeta på den."
  },
  "zh": {
    "ai_service_busy_retrying": "AI 服务繁忙，正在自动重试…",
    "ai_workload_classification_error": "暂时无法对您的会话进行分类。您可以重试，或稍后再来查看。",
    "ai_workload_guidance_error": "暂时无法生成您的建议。您可以重试，或稍后再来查看。",
    "ai_workload_retry_button": "重试",
    "ai_workload_summary_error": "暂时无法生成您的会话摘要。您可以重试，或稍后再来查看。",
    "session_see_later": "稍后再看",
    "session_summary_compiling": "正在生成您的会话摘要…",
    "session_summary_taking_longer": "生成摘要所需的时间比平时长。您不必在此等待，我们会继续处理。"
  }
};
